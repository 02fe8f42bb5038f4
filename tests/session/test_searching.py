"""search_turns: what is found, in which order, and that no match names what is gone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from session.errors import InvalidParams, SessionNotFound, StorageError, Unsupported
from session.model import HIT, HIT_END, Boundary, Match
from session.service import Service
from session.store import search
from session.store.texts import Texts, TurnText
from session.work import Work
from tests.builders import Transcript
from tests.session.telling import new_id, prompts, sid, told, turns
from tests.world import World, store_hash


async def index(service: Service) -> None:
    await service.index(lambda step: None)


async def matches(service: Service, query: str, **more: object) -> list[Match]:
    return (await service.search_turns(query, **more)).matches  # type: ignore[arg-type]


async def found(service: Service, query: str, **more: object) -> list[str]:
    """Snippets with hits in brackets."""
    shown = [m.snippet for m in await matches(service, query, **more)]
    return [text.replace(HIT, "[").replace(HIT_END, "]") for text in shown]


async def numbers(service: Service, query: str, **more: object) -> list[int | None]:
    return [m.turn_number for m in await matches(service, query, **more)]


async def test_turns_are_found_by_prompt_and_by_answer(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    first = t.turn("add a retry", "there is a backoff now")
    second = t.turn("thanks", "welcome")
    t.write(world.store)
    await index(service)
    assert await matches(service, "RETRY") == [
        Match(
            sid(t),
            first,
            1,
            f"add a {HIT}retry{HIT_END}",
            title="add a retry",
            updated_at=t.messages()[-1]["timestamp"],
        )
    ]
    assert [m.turn_id for m in await matches(service, "backoff")] == [first]
    assert [m.turn_id for m in await matches(service, "welc*")] == [second]
    assert await matches(service, "retry thanks") == []
    assert (await service.search_turns("retry")).indexing is None


async def test_searching_writes_nothing_in_the_agents_store(service: Service, world: World) -> None:
    told(world, "one", "two")
    before = store_hash(world.store)
    await index(service)
    assert await numbers(service, "two") == [2]
    assert store_hash(world.store) == before


async def test_what_tools_and_thoughts_say_is_not_searched(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("list the files")
    t.thinking("a hidden thought")
    t.tool("Bash", {"command": "ls secret_argument"}, "printed_output")
    t.meta("injected context")
    t.answer("visible words")
    t.write(world.store)
    await index(service)
    for word in ("thought", "secret_argument", "printed_output", "injected", "Bash"):
        assert await matches(service, word) == []
    assert await numbers(service, "visible") == [1]


async def test_a_turn_has_all_that_was_said_in_it(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("first words")
    t.answer("one moment", end_turn=False)
    t.tool("Bash", {"command": "ls"}, "x")
    t.queued_prompt("typed meanwhile")
    t.answer("at last")
    t.custom_command("review", "the parser")
    t.answer("reviewed")
    t.write(world.store)
    await index(service)
    assert await numbers(service, "first moment meanwhile last") == [1]
    assert await numbers(service, "review parser reviewed") == [2]


async def test_subagents_and_side_chains_are_not_searched(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("main")
    t.subagent("look around", "looked around", agent_id="ab12")
    t.sidechain("aside", "answered aside")
    t.answer("done")
    t.write(world.store)
    await index(service)
    assert await matches(service, "aside") == []
    assert [m.session_id for m in await matches(service, "main")] == [sid(t)]
    assert (await service.search_turns("main")).indexing is None


async def test_a_hit_in_a_prompt_comes_before_one_in_an_answer(
    service: Service, world: World
) -> None:
    t = Transcript(str(world.cwd))
    t.turn("alpha beta", "nothing here at all")
    t.turn("nothing here at all", "alpha beta")
    t.write(world.store)
    await index(service)
    assert await numbers(service, "alpha") == [1, 2]


async def test_of_equals_the_newer_one_comes_first(service: Service, world: World) -> None:
    for day in (2, 4, 3):
        t = Transcript(str(world.cwd), seed=day, start=f"2026-02-0{day}T09:00:00.000Z")
        t.turn("the same words", f"day {day}")
        t.write(world.store)
    await index(service)
    answers = [
        (await service.list_turns(m.session_id)).turns[0].response
        for m in await matches(service, "same words")
    ]
    assert answers == ["day 4", "day 3", "day 2"]


async def test_other_scripts_are_found_by_their_characters(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turn("今日の新聞を読む", "はい")
    t.turn("Ein Café an der Straße")
    t.write(world.store)
    await index(service)
    assert await found(service, "新聞") == ["今日の[新聞]を読む"]
    assert await numbers(service, "聞") == [1]
    assert await numbers(service, "cafe STRASSE") == [2]


@pytest.mark.parametrize("query", ["", "  ", '"', "*", "- :", "\x00"])
async def test_a_query_without_a_word_is_refused(
    service: Service, world: World, query: str
) -> None:
    with pytest.raises(InvalidParams) as refused:
        await service.search_turns(query)
    assert refused.value.fields["field"] == "query"


@pytest.mark.parametrize(
    "query",
    ['"unbalanced', "AND", "a AND", "NOT one", "one*two", "^one", "col:one", "(one", "-one"],
)
async def test_no_query_is_a_syntax_error(service: Service, world: World, query: str) -> None:
    told(world, "one")
    await index(service)
    await service.search_turns(query)
    assert (await found(service, "-one ( ^"))[0] == "[one]"


# Filters


async def test_a_search_keeps_to_a_directory_an_agent_and_a_session(
    service: Service, world: World
) -> None:
    below = world.cwd / "sub"
    below.mkdir()
    one = told(world, "word one", seed=1)
    two = told(world, "word two", seed=2, cwd=str(below))
    three = told(world, "word three", seed=3, cwd=str(world.home))
    await index(service)

    async def ids(**more: object) -> set[str]:
        return {m.session_id for m in await matches(service, "word", **more)}

    assert await ids() == {sid(one), sid(two), sid(three)}
    assert await ids(cwd=str(world.cwd)) == {sid(one), sid(two)}
    assert await ids(cwd=str(below)) == {sid(two)}
    assert await ids(session_id=sid(three)) == {sid(three)}
    assert await ids(session_id=sid(three), cwd=str(below)) == set()
    assert await ids(agents=["claude-code"]) == {sid(one), sid(two), sid(three)}
    assert await ids(agents=[]) == set()
    with pytest.raises(SessionNotFound):
        await ids(session_id=new_id(8))
    with pytest.raises(InvalidParams, match="absolute"):
        await ids(cwd="somewhere")


async def test_a_session_that_is_asked_for_is_indexed_first(service: Service, world: World) -> None:
    t, other = told(world, "word one", seed=1), told(world, "word two", seed=2)
    page = await service.search_turns("word", session_id=sid(t))
    assert [m.session_id for m in page.matches] == [sid(t)]
    assert page.indexing is None  # of what is searched
    page = await service.search_turns("word")
    assert [m.session_id for m in page.matches] == [sid(t)]
    assert page.indexing is not None
    assert (page.indexing.done, page.indexing.total) == (1, 2)
    await index(service)
    assert {m.session_id for m in await matches(service, "word")} == {sid(t), sid(other)}


# Pages


async def test_pages_hold_each_match_once(service: Service, world: World) -> None:
    for seed in range(1, 8):
        told(world, "word", "word again", seed=seed)
    await index(service)
    seen: list[tuple[str, int | None]] = []
    cursor = None
    for expected in (5, 5, 4):
        page = await service.search_turns("word", limit=5, cursor=cursor)
        seen += [(m.session_id, m.turn_number) for m in page.matches]
        assert len(page.matches) == expected
        cursor = page.next_cursor
    assert cursor is None
    assert len(set(seen)) == len(seen) == 14


async def test_a_cursor_is_good_though_sessions_come_and_go(service: Service, world: World) -> None:
    made = [told(world, "word", seed=seed) for seed in range(1, 7)]
    await index(service)
    page = await service.search_turns("word", limit=2)
    made[0].path(world.store).unlink()
    told(world, "word", seed=9)
    await index(service)
    first = {m.session_id for m in page.matches}
    rest = await service.search_turns("word", limit=50, cursor=page.next_cursor)
    assert rest.next_cursor is None
    assert not first & {m.session_id for m in rest.matches}


@pytest.mark.parametrize("cursor", ["", "x", "WzEsMiwzXQ==", "bnVsbA==", "é"])
async def test_what_is_no_cursor_is_refused(service: Service, world: World, cursor: str) -> None:
    told(world, "one")
    with pytest.raises(InvalidParams, match="cursor"):
        await service.search_turns("one", cursor=cursor)


async def test_a_cursor_is_good_for_its_own_query_only(service: Service, world: World) -> None:
    told(world, "one two", "one two")
    await index(service)
    cursor = (await service.search_turns("one", limit=1)).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidParams, match="cursor"):
        await service.search_turns("two", limit=1, cursor=cursor)


# What changes


async def test_a_turn_that_was_added_is_found_at_once_where_its_session_matches(
    service: Service, world: World
) -> None:
    t = told(world, "word one")
    await index(service)
    t.turn("word two")
    t.write(world.store)
    assert sorted(map(str, await numbers(service, "word"))) == ["1", "2"]


async def test_an_answer_that_grew_is_found(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.prompt("question")
    t.answer("first part", end_turn=False)
    t.write(world.store)
    await index(service)
    t.answer("second part")
    t.write(world.store)
    await index(service)
    assert await numbers(service, "question first second") == [1]
    assert await numbers(service, "question") == [1]


async def test_a_turn_that_was_rewound_away_is_found_on_its_branch(
    service: Service, world: World
) -> None:
    t = told(world, "one word", "two word", "three word")
    ids = [turn.turn_id for turn in await turns(service, sid(t))]
    await index(service)
    await service.rewind(sid(t), Boundary(turn_number=1))
    found = {m.turn_id: m.turn_number for m in await matches(service, "word")}
    assert found == {ids[0]: 1, ids[1]: None, ids[2]: None}
    await service.undo(sid(t))
    found = {m.turn_id: m.turn_number for m in await matches(service, "word")}
    assert found == dict(zip(ids, (1, 2, 3), strict=True))


async def test_a_file_that_was_written_anew_has_its_new_turns_only(
    service: Service, world: World
) -> None:
    t = told(world, "old word")
    await index(service)
    new = Transcript(str(world.cwd), seed=5, session_id=t.session_id)
    new.turn("new word", "x" * 500)
    path = new.write(world.store)
    assert await found(service, "word") == ["new [word]"]
    path.unlink()
    assert await matches(service, "word") == []
    await index(service)
    assert await matches(service, "word") == []


async def test_no_match_names_a_turn_that_is_gone(service: Service, world: World) -> None:
    t = told(world, "word one", "word two")
    await index(service)
    path = t.path(world.store)
    state = path.stat()
    # Other bytes in a file that looks like the old one to who does not read it.
    path.write_bytes(b"\n" * state.st_size)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert await matches(service, "word") == []


async def test_a_fork_is_found_beside_its_source(service: Service, world: World) -> None:
    t = told(world, "one word", "two")
    await index(service)
    await service.fork_session(sid(t), new_id(1))
    await index(service)
    assert {m.session_id for m in await matches(service, "word")} == {sid(t), new_id(1)}


async def test_words_of_turns_that_are_gone_are_collected(
    service: Service, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_FEW", 5)
    kept = told(world, "word kept", seed=100)
    for seed in range(8):
        told(world, "word gone", seed=seed)
    await index(service)
    for seed in range(8):
        told(world, "x", seed=seed).path(world.store).unlink()
    await index(service)
    assert sorted(p.name for p in world.state.glob("search*.db")) == ["search-1-2.db"]
    assert await found(service, "word") == ["[word] kept"]
    assert [m.session_id for m in await matches(service, "kept")] == [sid(kept)]


# What is in the way


async def test_a_damaged_index_is_made_again(service: Service, world: World) -> None:
    t = told(world, *(f"word {n}" for n in range(40)))
    await index(service)
    (path,) = world.state.glob("search-*.db")
    path.write_bytes(b"x" * path.stat().st_size)
    assert await matches(service, "word") == []
    await index(service)
    assert len(await matches(service, "word")) == 40
    assert await prompts(service, sid(t))


async def test_an_index_in_the_middle_of_a_file_is_finished(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    for number in range(6):
        t.turn(f"word {number}", "many words " * 150_000)
    t.write(world.store)

    index_half(service, world)
    with sqlite3.connect(next(world.state.glob("search-*.db"))) as connection:
        found = connection.execute("SELECT size, (SELECT count(*) FROM turns) FROM files")
        size, written = found.fetchone()
    assert size == 0 and 0 < written < 6
    page = await service.search_turns("word")
    assert page.indexing is None  # the file was on the page, and so is whole now
    assert len(page.matches) == 6


def index_half(service: Service, world: World) -> None:
    """As when the process dies between two pieces of a long file."""
    agent = service.context.catalog.agents[0]
    listing = agent.listing({}, Work())
    texts = agent.texts(listing.files[0], None, Work())

    def some() -> Iterator[TurnText]:
        for number, turn in enumerate(texts.turns):
            if number == 4:
                raise InterruptedError
            yield turn

    half = Texts(texts.known, texts.whole, texts.numbers, some())
    connection = search.open_to_write(world.state)
    with pytest.raises(InterruptedError):
        search.put(connection, listing.files[0].path, agent.name, None, half)
    connection.close()


async def test_of_two_processes_that_index_a_file_the_second_leaves_it(
    service: Service, world: World
) -> None:
    t = told(world, "word")
    agent = service.context.catalog.agents[0]
    (file,) = agent.listing({}, Work()).files
    one, two = search.open_to_write(world.state), search.open_to_write(world.state)
    before = search.state(one, file.path)
    texts = agent.texts(file, before, Work())
    assert search.put(one, file.path, agent.name, before, texts)
    assert not search.put(two, file.path, agent.name, before, agent.texts(file, None, Work()))
    one.close()
    two.close()
    assert [m.session_id for m in await matches(service, "word")] == [sid(t)]


async def test_a_home_that_cannot_be_written_says_so_or_is_searched_as_it_is(
    service: Service, world: World, tmp_path: Path
) -> None:
    told(world, "word")
    await index(service)
    file = tmp_path / "file"
    file.write_text("")
    lost = await Service.open(home=file / "home")
    try:
        with pytest.raises(StorageError):
            await lost.search_turns("word")
        with pytest.raises(StorageError):
            await index(lost)
    finally:
        await lost.close()


async def test_a_python_without_fts5_says_so_and_counts_all_the_same(
    service: Service, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(world, "word")
    monkeypatch.setattr(search, "has_fts5", lambda: False)
    await index(service)
    with pytest.raises(Unsupported) as refused:
        await service.search_turns("word")
    assert "FTS5" in refused.value.fields["reason"]
    assert list(world.state.glob("search*")) == []
