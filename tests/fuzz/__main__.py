"""`python -m tests.fuzz [TARGET…] [--seconds N]`: each target for its share of the time."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.seeds import SEEDS

CASES = Path(__file__).parent / "cases"
_SHOWN = 40  # lines of a failed run
_SLOW = 20  # seconds for one input


def run(target: str, seconds: int) -> bool:
    """Fuzz one target; says whether nothing was found."""
    cases = CASES / target
    cases.mkdir(parents=True, exist_ok=True)
    before = set(cases.iterdir())
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS[target]()):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.one", target),
                f"-max_total_time={seconds}",
                *("-max_len=65536", f"-timeout={_SLOW}", "-rss_limit_mb=1024"),
                *("-print_final_stats=1", f"-artifact_prefix={cases}/"),
                *(corpus, str(cases)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    said = [line for line in done.stderr.splitlines() if not line.startswith(("#", "INFO", "\t"))]
    runs = next((line.split()[-1] for line in said if "number_of_executed_units" in line), "0")
    found = sorted(set(cases.iterdir()) - before)
    if done.returncode == 0 and int(runs):
        print(f"fuzz {target}: {int(runs):,} inputs in {seconds} s, nothing found", flush=True)
        return True
    print("\n".join([*done.stdout.splitlines()[-_SHOWN:], *said[-_SHOWN:]]))
    for case in found:
        print(f"fuzz {target}: found {case}; mend it and commit the file, which tests replay")
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(SEEDS))
    parser.add_argument("--seconds", type=int, default=600, help="in all (default: %(default)s)")
    chosen = parser.parse_args()
    if find_spec("atheris") is None:
        print("fuzzing needs atheris, which has no wheel for this platform", file=sys.stderr)
        return 1
    unknown = set(chosen.targets) - set(SEEDS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(SEEDS)}")
    targets = chosen.targets or list(SEEDS)
    share = max(1, chosen.seconds // len(targets))
    found = [target for target in targets if not run(target, share)]
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
