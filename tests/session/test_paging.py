"""list_turns: orders, branches, pages, and cursors that pin the history they were made on."""

from __future__ import annotations

import base64
import json

import pytest

from session.errors import InvalidParams, StaleCursor, TurnNotFound
from session.model import Boundary, TurnPage
from session.service import Service
from tests.builders import Transcript
from tests.session.telling import new_id, prompts, sid, told
from tests.world import World

SEVEN = [f"p{number}" for number in range(1, 8)]


async def pages(service: Service, session_id: str, limit: int, **how: str) -> list[TurnPage]:
    out: list[TurnPage] = []
    cursor = None
    while not out or cursor is not None:
        page = await service.list_turns(session_id, limit=limit, cursor=cursor, **how)
        out.append(page)
        cursor = page.next_cursor
    return out


def shown(out: list[TurnPage]) -> list[list[str]]:
    return [[turn.prompt for turn in page.turns] for page in out]


async def test_turns_are_paged_from_the_oldest_or_from_the_newest(
    service: Service, world: World
) -> None:
    t = told(world, *SEVEN)
    assert shown(await pages(service, sid(t), 3)) == [SEVEN[:3], SEVEN[3:6], SEVEN[6:]]
    newest = await pages(service, sid(t), 3, order="newest")
    assert shown(newest) == [["p7", "p6", "p5"], ["p4", "p3", "p2"], ["p1"]]
    assert [x.turn_number for x in newest[0].turns] == [7, 6, 5]
    assert [x.parent_turn_id for x in newest[0].turns] == t.prompts[5:2:-1]
    assert {page.total_turns for page in newest} == {7}
    assert shown(await pages(service, sid(t), 7)) == [SEVEN]


async def test_a_session_without_turns_is_one_empty_page(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    t.turn("one")
    t.rewind_pointer(None)
    t.write(world.store)
    page = await service.list_turns(sid(t))
    assert (page.turns, page.total_turns, page.next_cursor) == ([], 0, None)
    assert page.session.turn_count == 0


async def test_appends_keep_a_cursor_and_its_count(service: Service, world: World) -> None:
    t = told(world, *SEVEN)
    oldest = await service.list_turns(sid(t), limit=4)
    newest = await service.list_turns(sid(t), limit=4, order="newest")
    t.turn("p8")
    t.turn("p9")
    t.write(world.store)
    rest = await service.list_turns(sid(t), limit=4, cursor=oldest.next_cursor)
    assert [x.prompt for x in rest.turns] == ["p5", "p6", "p7"]
    assert (rest.total_turns, rest.next_cursor) == (7, None)
    assert rest.session.turn_count == 9
    rest = await service.list_turns(sid(t), limit=4, order="newest", cursor=newest.next_cursor)
    assert [x.prompt for x in rest.turns] == ["p3", "p2", "p1"]


async def test_a_rewind_and_its_undo_make_a_cursor_stale_or_good_again(
    service: Service, world: World
) -> None:
    t = told(world, *SEVEN)
    page = await service.list_turns(sid(t), limit=2)
    await service.rewind(sid(t), Boundary(by=1))
    with pytest.raises(StaleCursor):
        await service.list_turns(sid(t), limit=2, cursor=page.next_cursor)
    shorter = await service.list_turns(sid(t), limit=2)
    await service.undo(sid(t))
    again = await service.list_turns(sid(t), limit=2, cursor=page.next_cursor)
    assert [x.prompt for x in again.turns] == ["p3", "p4"]
    assert shorter.next_cursor is not None


async def test_a_rewind_and_new_turns_make_a_cursor_stale_even_when_there_are_as_many(
    service: Service, world: World
) -> None:
    t = told(world, *SEVEN)
    page = await service.list_turns(sid(t), limit=2)
    t.rewind_pointer(t.messages()[9]["uuid"])
    for number in range(4):
        t.turn(f"other {number}")
    t.write(world.store)
    with pytest.raises(StaleCursor):
        await service.list_turns(sid(t), limit=2, cursor=page.next_cursor)


async def test_a_cursor_of_one_question_does_not_answer_another(
    service: Service, world: World
) -> None:
    t = told(world, *SEVEN)
    other = told(world, *SEVEN, "p8", seed=2)
    cursor = (await service.list_turns(sid(t), limit=2)).next_cursor
    for how in ({"order": "newest"}, {"branch": "all"}):
        with pytest.raises(InvalidParams, match="cursor"):
            await service.list_turns(sid(t), cursor=cursor, **how)
    with pytest.raises(StaleCursor):
        await service.list_turns(sid(other), cursor=cursor)


@pytest.mark.parametrize(
    "fields",
    [
        "x",
        [],
        ["active", "oldest", 7, "last"],
        ["active", "oldest", "many", "last", 0],
        ["active", "oldest", 7, "last", -1],
        ["active", "oldest", -7, "last", 1],
        {"a": 1},
        None,
    ],
)
async def test_what_is_no_cursor_of_turns_is_refused(
    service: Service, world: World, fields: object
) -> None:
    t = told(world, *SEVEN)
    cursor = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
    with pytest.raises(InvalidParams, match="cursor"):
        await service.list_turns(sid(t), cursor=cursor)


async def test_a_cursor_that_points_past_the_end_shows_nothing_more(
    service: Service, world: World
) -> None:
    t = told(world, *SEVEN)
    made = (await service.list_turns(sid(t), limit=2)).next_cursor
    fields = json.loads(base64.urlsafe_b64decode(str(made)))
    fields[-1] = 1000
    cursor = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
    page = await service.list_turns(sid(t), cursor=cursor)
    assert (page.turns, page.next_cursor) == ([], None)


async def test_all_turns_and_those_of_a_leaf_are_paged_too(service: Service, world: World) -> None:
    t = told(world, "p1", "p2", "p3")
    second = t.messages()[3]["uuid"]
    t.branch_from(second)
    t.turn("p3b")
    t.turn("p4b")
    t.last_prompt("p4b")
    t.write(world.store)
    everything = await pages(service, sid(t), 2, branch="all")
    assert shown(everything) == [["p1", "p2"], ["p3", "p3b"], ["p4b"]]
    assert {page.total_turns for page in everything} == {5}
    newest = await pages(service, sid(t), 3, branch="all", order="newest")
    assert shown(newest) == [["p4b", "p3b", "p3"], ["p2", "p1"]]
    branches = (await service.list_branches(sid(t))).branches
    left = next(b for b in branches if not b.active)
    on_it = await pages(service, sid(t), 2, branch=left.leaf_id)
    assert shown(on_it) == [["p1", "p2"], ["p3"]]
    assert [x.branch for x in on_it[0].turns] == ["active", "active"]
    assert [x.branch for x in on_it[1].turns] == [left.leaf_id]
    active = next(b for b in branches if b.active)
    assert shown(await pages(service, sid(t), 9, branch=active.leaf_id)) == [
        ["p1", "p2", "p3b", "p4b"]
    ]
    with pytest.raises(InvalidParams, match="branch"):
        await service.list_turns(sid(t), branch="nowhere")


async def test_gaps_are_told_with_every_page(service: Service, world: World) -> None:
    t = told(world, *SEVEN)
    missing = t.messages()[7]["uuid"]
    t.drop(missing)
    t.write(world.store)
    out = await pages(service, sid(t), 3)
    assert [turn for page in shown(out) for turn in page] == SEVEN
    for page in out:
        assert [(g.missing, g.before_turn_id, g.line) for g in page.gaps] == [
            (missing, t.prompts[4], 8)
        ]


async def test_turn_ids_are_the_same_after_appends_rewinds_compactions_and_forks(
    service: Service, world: World
) -> None:
    t = told(world, *SEVEN)

    async def ids(session_id: str) -> list[str]:
        return [x.turn_id for x in (await service.list_turns(session_id)).turns]

    assert await ids(sid(t)) == t.prompts
    t.turn("p8")
    t.write(world.store)
    assert await ids(sid(t)) == t.prompts
    await service.fork_session(sid(t), new_id(), at=Boundary(turn_number=5))
    assert await ids(new_id()) == t.prompts[:5]
    await service.rewind(sid(t), Boundary(turn_number=3))
    assert await ids(sid(t)) == t.prompts[:3]
    await service.undo(sid(t))
    t.compact()
    t.turn("p9")
    t.write(world.store)
    assert await ids(sid(t)) == t.prompts


# Reading one turn


async def test_a_turn_is_read_in_pages_of_bytes(service: Service, world: World) -> None:
    t = Transcript(str(world.cwd))
    turn_id = t.prompt("新聞 " * 300)
    t.tool("Bash", {"command": "x"}, "é" * 1000)
    t.answer("done")
    t.write(world.store)
    text: dict[str, str] = {}
    cursor = None
    count = 0
    while count == 0 or cursor is not None:
        page = await service.read_turn(sid(t), turn_id, max_bytes=256, cursor=cursor)
        assert page.turn.turn_id == turn_id
        for item in page.items:
            text[item.item_id] = text.get(item.item_id, "") + item.text
        cursor = page.next_cursor
        count += 1
    assert list(text.values()) == ["新聞 " * 300, '{"command":"x"}', "é" * 1000, "done"]
    assert count > 10
    with pytest.raises(TurnNotFound):
        await service.read_turn(sid(t), "no-such-turn")


async def test_a_turn_that_a_rewind_dropped_is_still_read(service: Service, world: World) -> None:
    t = told(world, "one", "two")
    await service.rewind(sid(t), Boundary(by=1))
    assert await prompts(service, sid(t)) == ["one"]
    page = await service.read_turn(sid(t), t.prompts[1])
    assert [i.text for i in page.items] == ["two", "answer to two"]
    assert page.turn.branch != "active"
