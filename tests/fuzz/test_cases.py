"""What fuzzing found, replayed; and that the targets can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from session.agents.claude_code import records
from tests.fuzz import mutate, targets
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

CASES = sorted(path for path in (Path(__file__).parent / "cases").glob("*/*") if path.is_file())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name[:24]}")
def test_what_fuzzing_found_holds(case: Path) -> None:
    TARGETS[case.parent.name](case.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_of_a_target_and_their_mutations_hold(target: str) -> None:
    for data in SEEDS[target]():
        TARGETS[target](data)
        for seed in range(40):
            TARGETS[target](mutate.mutate(data, seed, 1 << 16))


def test_a_reader_that_hides_a_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(line: bytes) -> records.Record | None:
        record = whole(line)
        return None if record is not None and record.get("type") == "assistant" else record

    whole = records.parse
    data = next(SEEDS["reader"]())
    monkeypatch.setattr("session.agents.claude_code.plain.native", None)
    monkeypatch.setattr("session.agents.claude_code.table.records.parse", blind)
    with pytest.raises(AssertionError):
        targets.reader(data)
