"""Bytes in and out of a real server process: odd frames, ends of input, signals."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess

import psutil
import pytest

from server.framing import MAX_BODY, MAX_SKIPPED
from tests.client import PATIENCE, turntree, wait_until
from tests.server.pipes import (
    EXIT,
    INITIALIZE,
    SHUTDOWN,
    RawServer,
    frame,
    notification,
    request,
    small,
)
from tests.world import World

SMALL = small(1)[small(1).index(b"{") :]


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: %d\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"CONTENT-LENGTH:%d  \r\n\r\n",
        b"\r\n\r\n  \r\nContent-Length: %d\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
    ],
)
def test_a_header_in_any_accepted_form_is_read(lasting: RawServer, header: bytes) -> None:
    lasting.send(header % len(SMALL), SMALL)
    assert "result" in lasting.reply(1)
    assert lasting.works()


@pytest.mark.parametrize(
    "bad",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: five\r\n\r\n",
        b"X-Nothing: here\r\n\r\n" + SMALL,
        SMALL + b"\n",
        b"Content-Length: %d\r\nContent-Length: 4\r\n\r\nabcd" % len(SMALL),
    ],
)
def test_a_header_that_cannot_be_read_is_an_invalid_request(lasting: RawServer, bad: bytes) -> None:
    lasting.send(bad)
    assert lasting.error(None)["code"] == -32600
    assert lasting.works()


def test_frames_arrive_in_fragments_of_any_size(lasting: RawServer) -> None:
    for byte in small("a") + frame(b"{") + small("b"):
        lasting.send(bytes([byte]))
    assert "result" in lasting.reply("a")
    assert lasting.error(None)["code"] == -32700
    assert "result" in lasting.reply("b")


def test_many_requests_in_one_write_are_all_answered(lasting: RawServer) -> None:
    lasting.send(*(small(number) for number in range(2000)))
    assert {lasting.message()["id"] for _ in range(2000)} == set(range(2000))


def test_a_body_over_the_limit_is_answered_before_it_is_sent_and_then_drained(
    lasting: RawServer,
) -> None:
    lasting.send(b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
    assert lasting.error(None)["code"] == -32600
    chunk = b" " * (1 << 20)
    for _ in range(64):
        lasting.send(chunk)
    lasting.send(b" ")
    assert lasting.works()


def test_a_body_of_exactly_the_limit_is_read(lasting: RawServer) -> None:
    padding = b" " * (MAX_BODY - len(SMALL))
    lasting.send(b"Content-Length: %d\r\n\r\n" % MAX_BODY, SMALL, padding)
    assert "result" in lasting.reply(1)
    assert lasting.works()


@pytest.mark.parametrize("length", [MAX_SKIPPED + 1, 10**12, 10**30])
def test_a_body_that_is_too_long_to_drain_is_answered_and_ends_the_process(
    raw: RawServer, length: int
) -> None:
    raw.send(INITIALIZE, b"Content-Length: %d\r\n\r\n{" % length)
    assert "result" in raw.reply("initialize")
    assert raw.error(None)["code"] == -32600
    assert raw.rest() == []
    assert raw.exit_code() == 1


def test_exit_after_shutdown_is_code_0(raw: RawServer) -> None:
    raw.initialize()
    raw.send(SHUTDOWN)
    assert raw.reply("shutdown")["result"] is None
    raw.send(EXIT)
    assert raw.exit_code() == 0


def test_exit_without_shutdown_is_code_1(raw: RawServer) -> None:
    raw.initialize()
    raw.send(EXIT)
    assert raw.exit_code() == 1


def test_the_end_of_input_without_shutdown_is_code_1(raw: RawServer) -> None:
    raw.initialize()
    raw.close_input()
    assert raw.exit_code() == 1


def test_the_end_of_input_after_shutdown_is_code_0(raw: RawServer) -> None:
    raw.initialize()
    raw.send(SHUTDOWN)
    raw.reply("shutdown")
    raw.close_input()
    assert raw.exit_code() == 0


def test_input_that_ends_before_anything_was_sent_is_code_1(raw: RawServer) -> None:
    raw.close_input()
    assert raw.exit_code() == 1
    assert raw.rest() == []


def test_input_that_ends_in_the_middle_of_a_frame_is_an_ordinary_end(raw: RawServer) -> None:
    raw.initialize()
    raw.send(small(1), small(2)[:-7])
    raw.close_input()
    assert [message["id"] for message in raw.rest()] == [1]
    assert raw.exit_code() == 1


def test_what_was_asked_before_the_end_of_input_is_answered(raw: RawServer) -> None:
    asked = [request(number, "list_sessions") for number in range(20)]
    raw.send(INITIALIZE, *asked, SHUTDOWN, EXIT)
    raw.close_input()
    answers = [message for message in raw.rest() if "id" in message]
    assert {message["id"] for message in answers} == {"initialize", "shutdown", *range(20)}
    assert all("result" in message for message in answers)
    assert answers[-1]["id"] == "shutdown"
    assert raw.exit_code() == 0


def test_a_file_may_be_the_input_and_the_output(world: World) -> None:
    script, output = world.home / "script", world.home / "output"
    script.write_bytes(INITIALIZE + small(1) + SHUTDOWN + EXIT)
    with script.open("rb") as source, output.open("wb") as target:
        done = subprocess.run(
            [turntree(), "serve"], env=world.env(), stdin=source, stdout=target, timeout=PATIENCE
        )
    assert done.returncode == 0
    assert output.read_bytes().count(b'"result":') == 3


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_the_process_and_leaves_no_traceback(
    raw: RawServer, name: str, code: int
) -> None:
    raw.initialize()
    assert raw.works()
    os.kill(raw.process.pid, getattr(signal, name))
    assert raw.exit_code() == code
    assert raw.stderr() == ""


def test_a_client_that_no_longer_reads_ends_the_process(raw: RawServer) -> None:
    raw.initialize()
    assert raw.process.stdout is not None
    # The reader thread holds the descriptor too, so the process's end is closed under it.
    closer = os.open(os.devnull, os.O_RDONLY)
    os.dup2(closer, raw.process.stdout.fileno())
    os.close(closer)
    raw.send(small(1))
    assert raw.exit_code() == 1


def test_output_that_goes_nowhere_from_the_start_ends_the_process(world: World) -> None:
    source, feed = os.pipe()
    unread, target = os.pipe()
    os.close(unread)
    process = subprocess.Popen([turntree(), "serve"], env=world.env(), stdin=source, stdout=target)
    os.close(source)
    os.close(target)
    try:
        os.write(feed, INITIALIZE)
        assert process.wait(PATIENCE) == 1
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(feed)


def test_a_server_without_a_stdin_says_so_in_one_line(world: World) -> None:
    closed = ["sh", "-c", 'exec "$0" serve <&-', turntree()]
    done = subprocess.run(closed, env=world.env(), capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1


def test_no_output_of_a_library_can_get_between_the_frames(raw: RawServer) -> None:
    raw.initialize()
    descriptors = psutil.Process(raw.process.pid)
    # The frames go to a descriptor of their own; 1 leads where stderr leads.
    assert os.readlink(f"/proc/{descriptors.pid}/fd/1") == os.readlink(
        f"/proc/{descriptors.pid}/fd/2"
    )


def test_notifications_after_exit_are_not_waited_for(raw: RawServer) -> None:
    raw.initialize()
    raw.send(SHUTDOWN, EXIT, notification("initialized", {}), b"half a frame")
    assert raw.exit_code() == 0


def test_a_state_directory_that_cannot_be_made_does_not_stop_the_server(world: World) -> None:
    world.state.write_text("a file where the directory should be")
    with RawServer(world.env()) as server:
        server.initialize()
        server.send(request(1, "list_sessions"))
        assert "result" in server.reply(1)
        assert server.works()


def test_a_store_that_cannot_be_opened_is_told_to_each_request_until_it_can(world: World) -> None:
    world.state.mkdir()
    with contextlib.closing(sqlite3.connect(world.state / "turntree.db")) as database:
        database.execute("PRAGMA user_version=999")
        with RawServer(world.env()) as server:
            server.initialize()
            for number in range(3):
                server.send(request(number, "list_sessions"))
                error = server.error(number)
                assert error["code"] == 1015
                assert error["data"]["kind"] == "storage_error"
                assert "newer" in error["message"]
            database.execute("PRAGMA user_version=0")
            server.send(request(4, "list_sessions"))
            assert "result" in server.reply(4)


def test_no_thread_keeps_the_process_alive_and_no_child_is_left(raw: RawServer) -> None:
    raw.initialize()
    assert raw.works()
    raw.send(SHUTDOWN, EXIT)
    assert raw.exit_code() == 0
    wait_until(lambda: not psutil.pid_exists(raw.process.pid))
