"""A stream costs little, keeps no backlog, and is gone when its client is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from greenroom.gateway.watch._live import Live
from greenroom.gateway.watch._memory import memory_held
from greenroom.gateway.watch._streams import MOST_WAITING, Stream, event_bytes
from tests.actors.actors import PATIENCE
from tests.gateway.agents_for_tests import Troupe
from tests.gateway.page_serving import live_of, page_serving
from tests.house import ROOT
from tests.room.agents import until

MOST_PER_STREAM = 40_000
"""Bytes. What is counted is twenty thousand, nearly all of it the server's and the loop's own."""


class Connection:
    """What a server is to a stream: takes what is sent when the test lets it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.open = True
        self._gate = asyncio.get_running_loop().create_future()
        self._over = asyncio.get_running_loop().create_future()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if not self.open:
            await self._gate
        self.sent.append(message["body"])
        if not message["more_body"]:
            self.hang_up()

    async def receive(self) -> MutableMapping[str, Any]:
        await self._over
        return {"type": "http.disconnect"}

    def let_through(self) -> None:
        self.open = True
        self._gate.set_result(None)

    def hang_up(self) -> None:
        if not self._over.done():
            self._over.set_result(None)


async def _turns(count: int = 5) -> None:
    """Let whatever is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_events_that_come_together_are_sent_together_and_in_order() -> None:
    async def run() -> list[bytes]:
        connection = Connection()
        stream = Stream(connection.send, lambda: b"whole ")
        for event in (b"1 ", b"2 ", b"3 "):
            stream.offer(event)
        await _turns()
        stream.offer(b"4 ")
        await _turns()
        return connection.sent

    assert asyncio.run(run()) == [b"1 2 3 ", b"4 "]


def test_a_slow_client_gets_the_newest_whole_and_no_backlog() -> None:
    async def run() -> list[bytes]:
        connection = Connection()
        newest = [0]
        stream = Stream(connection.send, lambda: b"whole %d" % newest[0])
        connection.open = False
        stream.offer(b"first")
        await _turns()
        for number in range(10 * MOST_WAITING):
            newest[0] = number
            stream.offer(b"%d" % number)
        connection.let_through()
        await _turns()
        stream.offer(b"next")
        await _turns()
        return connection.sent

    assert asyncio.run(run()) == [b"first", b"whole %d" % (10 * MOST_WAITING - 1), b"next"]


def test_a_client_that_takes_nothing_is_known_and_can_be_dropped() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        connection = Connection()
        connection.open = False
        stream = Stream(connection.send, lambda: b"")
        running = asyncio.create_task(stream.run(connection.receive))
        await _turns()
        assert not stream.is_stuck(loop.time() + 1.0)
        stream.offer(b"x")
        await _turns()
        assert stream.is_stuck(loop.time() + 1.0)
        assert not stream.is_stuck(loop.time() - 1.0)
        stream.drop()
        await asyncio.wait_for(running, PATIENCE)
        assert not running.cancelled()
        await _turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_somebody_elses_cancellation_is_left_as_it_is() -> None:
    async def run() -> bool:
        connection = Connection()
        stream = Stream(connection.send, lambda: b"")
        running = asyncio.create_task(stream.run(connection.receive))
        await _turns()
        running.cancel()
        await asyncio.wait([running])
        return running.cancelled()

    assert asyncio.run(run())


def test_a_send_that_fails_ends_the_stream() -> None:
    async def run() -> None:
        async def send(_: MutableMapping[str, Any]) -> None:
            raise OSError("the client has gone")

        stream = Stream(send, lambda: b"")
        running = asyncio.create_task(stream.run(Connection().receive))
        await _turns()
        stream.offer(b"x")
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(run())


def test_a_last_event_ends_it_whatever_waits() -> None:
    async def run() -> list[bytes]:
        connection = Connection()
        stream = Stream(connection.send, lambda: b"")
        running = asyncio.create_task(stream.run(connection.receive))
        await _turns()
        stream.offer(b"left out")
        await stream.end(b"bye")
        await asyncio.wait_for(running, PATIENCE)
        return connection.sent

    assert asyncio.run(run()) == [b"bye"]


def test_an_event_is_one_line_whatever_is_in_it() -> None:
    assert event_bytes("room", {"key": "a\n\nevent: b\r€"}) == (
        'event: room\ndata: {"key":"a\\n\\nevent: b\\r€"}\n\n'.encode()
    )


@contextlib.contextmanager
def clients(port: int, count: int) -> Iterator[subprocess.Popen[str]]:
    """Hold so many streams open, from another process."""
    command = [sys.executable, "-m", "tests.gateway.stream_clients", str(port), str(count)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"open {count}\n"
            yield process
        finally:
            process.kill()


@pytest.mark.xdist_group("heavy")
@pytest.mark.timeout(180)
def test_ten_thousand_idle_streams_are_cheap_and_leave_nothing(
    record_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, (most if most != resource.RLIM_INFINITY else 1 << 20) - 500)
    if count < 500:
        pytest.skip(f"this system allows {most} open files, too few to hold many streams")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 400), most))
    try:
        with page_serving(Troupe(), max_streams=count) as server:
            live = live_of(server)
            gc.collect()
            before, tasks = memory_held() or 0, server.call(_count_tasks())
            with clients(server.port, count) as process:
                assert live.watching == count
                each = ((memory_held() or 0) - before) / count
                # One task a connection, the server's own, and the one that looks for all of them; and
                # others for as long as something is sent.
                until(lambda: server.call(_count_tasks()) <= tasks + count + 2, "there are more tasks")
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("close\n")
                process.stdin.flush()
                assert process.stdout.readline() == "closed\n"
                server.call(_wait_gone(live))
            assert live.watching == 0
            until(lambda: server.call(_count_tasks()) <= tasks + 1, "the end of their tasks")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
    record_property("bytes_per_stream", round(each))
    with capsys.disabled():
        sys.stderr.write(f"\n{count:,} idle event streams: {each / 1000:.1f} kB each\n")
    assert each < MOST_PER_STREAM


async def _count_tasks() -> int:
    return len(asyncio.all_tasks())


async def _wait_gone(live: Live) -> None:
    if live._looking is not None:
        await asyncio.wait([live._looking])  # it ends when nobody watches any more
