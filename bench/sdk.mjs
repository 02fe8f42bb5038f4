// Carries out orders from stdin, one JSON object a line, with the SDK whose module is the
// first argument; answers each with the milliseconds that the SDK took.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const sdk = await import(pathToFileURL(process.argv[2]));

async function carryOut(order) {
  const began = performance.now();
  if ("list" in order) {
    const found = await sdk.listSessions({ limit: order.list });
    return { ms: performance.now() - began, found: found.length };
  }
  const made = await sdk.forkSession(order.fork, { upToMessageId: order.through });
  return { ms: performance.now() - began, session: made.sessionId };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await carryOut(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  console.log(JSON.stringify(answer));
}
