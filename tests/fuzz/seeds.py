"""What the fuzzer starts from: small whole inputs, one for each shape that files have."""

from __future__ import annotations

from collections.abc import Iterator

from tests.builders import Transcript
from tests.fuzz.targets import SESSION

_REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":{"limit":5}}'


def _built(seed: int) -> Transcript:
    return Transcript(session_id=SESSION, seed=seed, cwd="/p")


def transcripts() -> Iterator[bytes]:
    linear = _built(1)
    linear.turns(3)
    yield linear.dump("/folder")
    tools = _built(2)
    tools.prompt("do it")
    tools.tool("Bash", {"command": "ls"}, "a.py")
    tools.thinking("a thought", "an answer")
    tools.turn("和 🙂 \ud800", "答")
    yield tools.dump("/folder")
    branched = _built(3)
    first = branched.turn("one")
    branched.turn("two")
    branched.prompt("two again", parent=branched.find(first)["uuid"])
    branched.answer("other")
    yield branched.dump("/folder")
    mixed, other = _built(4), Transcript(seed=5, cwd="/p")
    mixed.turns(2)
    other.turns(2)
    mixed.records[1:1] = other.records[:2]
    mixed.append({"type": "last-prompt", "leafUuid": mixed.head, "sessionId": SESSION})
    mixed.append({"type": "custom-title", "customTitle": "t", "sessionId": SESSION})
    mixed.records += other.records[2:]
    yield mixed.dump("/folder")


def damaged() -> Iterator[bytes]:
    """What there is to be found in a file, beside what `transcripts` hold."""
    yield from transcripts()
    t = _built(6)
    t.prompt("one")
    t.tool("Bash", {"command": "ls"}, None)
    t.blocks([{"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}}])
    t.thinking("unsigned", signature="")
    t.queue_operation(content="waiting")
    t.records[1:1] = [b"\xef\xbb\xbf{}", b"\x00\x00", b"", b'{"type":"mode","mo{"type":"mode"}']
    t.records += t.records[:2]
    yield t.dump("/folder")
    yield b"\xff\xfe" + t.dump("/folder").decode(errors="replace").encode("utf-16-le")


def frames() -> Iterator[bytes]:
    yield b"Content-Length: %d\r\n\r\n%s" % (len(_REQUEST), _REQUEST)
    yield b"content-length:2\r\nContent-Type: x\r\n\r\n{}" * 3
    yield b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"


def parameters() -> Iterator[bytes]:
    yield b'\x06{"session_id":"claude-code:x","new_session_id":"y","at":{"turn_number":1}}'
    yield b'\x09{"session_id":"claude-code:x","to":{"by":1},"unsaved":["file:///a"]}'
    yield b'\x00{"cwd":"/p","agents":["codex"],"kinds":["main"],"limit":5,"cursor":null}'


SEEDS = {
    "reader": transcripts,
    "extension": damaged,
    "checker": damaged,
    "fork": transcripts,
    "splicer": transcripts,
    "frames": frames,
    "params": parameters,
}
