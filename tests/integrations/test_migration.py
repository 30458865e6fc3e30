"""The bugs that docs/migration.md finds in a dict and a lock: each is forced on `before.py`, which has
it, and on `after.py`, which has not. And the page quotes both as they are."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples.migration import after, before
from greenroom import RoomClosed
from tests.actors.actors import PATIENCE, in_thread, join_all
from tests.integrations.migration_child import LEASE_TTL, remembering
from tests.room.agents import Agent, Cast, until, waiting_for

ROOT = Path(__file__).parents[2]
SOON = 1e-9
"""An idle time that is over as soon as one looks."""


class Player(Agent):
    """An agent whose turns are noted, too."""

    def run(self, text: str) -> str:
        self.cast.act("run", self)
        return super().run(text)


class Before(before.Gateway):
    """Without the thread that sweeps, which would never end."""

    def _sweep_forever(self) -> None:
        pass


@pytest.fixture
def cast() -> Iterator[Cast]:
    cast = Cast(Player)
    yield cast
    cast.finish()


@pytest.fixture
def old(cast: Cast) -> Callable[..., Before]:
    return lambda **bounds: Before(builder(cast), **bounds)


@pytest.fixture
def new(cast: Cast) -> Iterator[Callable[..., after.Gateway]]:
    opened: list[after.Gateway] = []

    def open_one(**bounds: Any) -> after.Gateway:
        opened.append(after.Gateway(builder(cast), **bounds))
        return opened[-1]

    yield open_one
    cast.finish()  # opens the gates
    for gateway in opened:
        gateway.shutdown()


def builder(cast: Cast) -> Callable[[str], Any]:
    def build(key: str) -> Agent:
        return cast.build(SimpleNamespace(key=key, session_id=key, spec=None))  # type: ignore[arg-type]  # all that it reads

    return build


def answering(gateway: Any, key: str) -> threading.Thread:
    """A message of this chat, on a thread of its own."""
    return in_thread(lambda: gateway.answer(key, "hello"))


# 1. An agent is taken away in the middle of its turn.


def evicted_in_mid_turn(gateway: Any, cast: Cast) -> None:
    """The chat `a` is in a turn when `b` comes, and there is room for one agent."""
    cast.at["run a"] = gate = cast.gate()
    turn = answering(gateway, "a")
    gate.wait_reached()
    gateway.answer("b", "hello")
    cast.log.append("the turn of a goes on")
    gate.open()
    join_all([turn])


def test_before_an_agent_loses_its_clients_in_mid_turn(old: Any, cast: Cast) -> None:
    evicted_in_mid_turn(old(cap=1), cast)
    assert cast.log.index("release a/1") < cast.log.index("the turn of a goes on")


def test_after_an_agent_keeps_its_clients_until_its_turn_is_over(new: Any, cast: Cast) -> None:
    """C4, C5"""
    gateway = new(cap=1)
    evicted_in_mid_turn(gateway, cast)
    gateway.room.settle(PATIENCE)
    assert "the turn of a goes on" in cast.log
    assert cast.did("release") == ["b/1"], "the end of its turn made a the most recently used"


def test_before_the_turn_of_an_evicted_agent_is_never_committed(old: Any, cast: Cast) -> None:
    gateway = old(cap=1)
    evicted_in_mid_turn(gateway, cast)
    gateway.commit("a")
    gateway.shutdown()
    assert cast.did("commit") == ["b/1"]
    assert "a" in gateway._dirty  # for ever, and with it one key for each chat that it happens to


def test_after_the_turn_is_committed(new: Any, cast: Cast) -> None:
    """G1, C8"""
    gateway = new(cap=1)
    evicted_in_mid_turn(gateway, cast)
    gateway.shutdown()
    assert sorted(cast.did("commit")) == ["a/1", "b/1"]


def test_before_the_sweep_stumbles_over_a_chat_that_was_evicted_in_mid_turn(
    old: Any, cast: Cast
) -> None:
    gateway = old(cap=1, idle_ttl=SOON)
    evicted_in_mid_turn(gateway, cast)
    with pytest.raises(KeyError, match="a"):
        gateway.sweep()  # and nobody sweeps any more: this was the end of its thread


def test_after_the_sweep_goes_on(new: Any, cast: Cast) -> None:
    """C6, S5"""
    gateway = new(cap=2, idle_ttl=SOON)
    evicted_in_mid_turn(gateway, cast)
    cast.at["release a"] = OSError("no")
    gateway.sweep()
    gateway.room.settle(PATIENCE)
    assert sorted(cast.did("release")) == ["a/1", "b/1"]


def test_before_a_turn_that_takes_long_is_swept_as_idle(old: Any, cast: Cast) -> None:
    gateway = old(idle_ttl=SOON)
    cast.at["run a"] = gate = cast.gate()
    turn = answering(gateway, "a")
    gate.wait_reached()
    gateway.sweep()
    assert cast.did("release") == ["a/1"]
    gate.open()
    join_all([turn])


def test_after_a_turn_that_takes_long_is_not_idle(new: Any, cast: Cast) -> None:
    """C4"""
    gateway = new(idle_ttl=SOON)
    cast.at["run a"] = gate = cast.gate()
    turn = answering(gateway, "a")
    gate.wait_reached()
    gateway.sweep()
    gateway.room.settle(PATIENCE)
    assert cast.did("release") == []
    gate.open()
    join_all([turn])


# 2. Two messages of one chat at once.


def test_before_two_messages_run_on_one_agent_at_once(old: Any, cast: Cast) -> None:
    gateway = old()
    gateway.answer("a", "hello")
    cast.at["run a"] = gate = cast.gate()
    turns = [answering(gateway, "a"), answering(gateway, "a")]
    until(lambda: len(cast.did("run")) == 3, "two turns at once")
    gate.open()
    join_all(turns)


def test_after_the_second_message_waits(new: Any, cast: Cast) -> None:
    """T3"""
    gateway = new()
    gateway.answer("a", "hello")
    cast.at["run a"] = gate = cast.gate()
    turns = [answering(gateway, "a")]
    gate.wait_reached()
    turns.append(answering(gateway, "a"))
    until(lambda: waiting_for(gateway.room, "a") == 1, "a message that waits")
    assert len(cast.did("run")) == 2
    gate.open()
    join_all(turns)
    assert len(cast.did("run")) == 3


def test_before_two_first_messages_build_two_agents_and_one_is_never_closed(
    old: Any, cast: Cast
) -> None:
    gateway = old()
    cast.at["build a"] = gate = cast.gate()
    turns = [answering(gateway, "a"), answering(gateway, "a")]
    until(lambda: len(cast.did("build")) == 2, "two builds")
    gate.open()
    join_all(turns)
    gateway.shutdown()
    assert sorted(cast.farewells().values()) == [0, 1]


def test_after_two_first_messages_build_one(new: Any, cast: Cast) -> None:
    """T1, T3"""
    gateway = new()
    cast.at["build a"] = gate = cast.gate()
    turns = [answering(gateway, "a"), answering(gateway, "a")]
    until(lambda: waiting_for(gateway.room, "a") == 2, "two messages that wait for the agent")
    gate.open()
    join_all(turns)
    gateway.shutdown()
    assert cast.farewells() == {"a/1": 1}


# 3. One chat's teardown is everybody's.


def test_before_everybody_waits_for_the_teardown_of_one(old: Any, cast: Cast) -> None:
    gateway = old(cap=1)
    gateway.answer("a", "hello")
    cast.at["release a"] = gate = cast.gate()
    turns = [answering(gateway, "b")]
    gate.wait_reached()
    turns.append(answering(gateway, "c"))
    assert gateway._lock.locked()
    cast.log.append("a is torn down")
    gate.open()
    join_all(turns)
    assert cast.log.index("run b/1") > cast.log.index("a is torn down")
    assert cast.log.index("run c/1") > cast.log.index("a is torn down")


def test_after_nobody_waits_for_it(new: Any, cast: Cast) -> None:
    """C7"""
    gateway = new(cap=1)
    gateway.answer("a", "hello")
    cast.at["release a"] = gate = cast.gate()
    gateway.answer("b", "hello")
    gate.wait_reached()
    gateway.answer("c", "hello")
    assert "release a/1" not in cast.done
    gate.open()


def released_with_an_error(gateway: Any, cast: Cast) -> None:
    """The chat `a` is let go for `b`, and its clients are in trouble."""
    gateway.answer("a", "hello")
    cast.at["release a"] = OSError("the socket is gone")
    gateway.answer("b", "hello")


def test_before_a_message_fails_because_the_clients_of_another_chat_do(old: Any, cast: Cast) -> None:
    with pytest.raises(OSError, match="the socket is gone"):
        released_with_an_error(old(cap=1), cast)
    assert cast.did("run") == ["a/1"]


def test_after_no_message_does(new: Any, cast: Cast) -> None:
    """S5"""
    gateway = new(cap=1)
    released_with_an_error(gateway, cast)
    gateway.room.settle(PATIENCE)
    assert cast.did("release") == ["a/1"]
    assert cast.did("run") == ["a/1", "b/1"]


class Watched(dict[str, float]):
    """When each chat was used, and whether the lock was held while somebody looked."""

    def __init__(self, lock: threading.Lock, used: dict[str, float]) -> None:
        super().__init__(used)
        self._lock = lock
        self.looks: list[bool] = []

    def items(self) -> Any:
        for item in super().items():
            self.looks.append(self._lock.locked())
            yield item


def test_before_a_sweep_that_finds_nothing_looks_at_every_chat_with_the_lock_held(old: Any) -> None:
    gateway = old()
    for number in range(100):
        gateway.answer(f"chat {number}", "hello")
    gateway._used = watched = Watched(gateway._lock, gateway._used)
    gateway.sweep()
    assert watched.looks == [True] * 100


def test_after_a_sweep_looks_only_at_what_is_idle(new: Any) -> None:
    """C6. Counted in lines that are run, so that no clock is asked."""

    def lines_of_a_sweep(kept: int) -> int:
        gateway = new(cap=None)
        for number in range(kept):
            gateway.answer(f"chat {number}", "hello")
        gateway.room.settle(PATIENCE)
        lines = [0]

        def trace(_frame: Any, event: str, _argument: Any) -> Any:
            lines[0] += event == "line"
            return trace

        before_it = sys.gettrace()
        sys.settrace(trace)
        try:
            gateway.sweep()
        finally:
            sys.settrace(before_it)
        return lines[0]

    few, many = lines_of_a_sweep(5), lines_of_a_sweep(505)
    assert few > 0
    assert many < few + 250


# 4. More than there is memory for.


def grow(cast: Cast) -> None:
    for agent in cast.agents:
        agent.weight = 10 * 2**30


def three_chats(gateway: Any) -> None:
    for key in ("a", "b", "c"):
        gateway.answer(key, "hello")


def test_before_agents_may_be_as_large_as_they_like(old: Any, cast: Cast) -> None:
    """It has no line that could know: 10 GB each are three chats."""
    cast.at["run"] = lambda: grow(cast)
    three_chats(old(cap=3))
    assert sum(agent.weight for agent in cast.agents) == 30 * 2**30
    assert cast.did("release") == []


def test_after_those_that_are_too_large_together_are_let_go(new: Any, cast: Cast) -> None:
    """C10"""
    cast.at["run"] = lambda: grow(cast)
    gateway = new(cap=3, memory_budget=16 * 2**30, weigh=lambda agent: agent.weight)
    for key in ("a", "b", "c"):
        gateway.answer(key, "hello")
        gateway.room.settle(PATIENCE)  # each is let go on a worker of its own
    assert cast.did("release") == ["a/1", "b/1"]
    assert gateway.room.keys() == ("c",)


# 5. Work that is done and then forgotten.


def test_before_a_commit_that_fails_is_not_tried_again(old: Any, cast: Cast) -> None:
    gateway = old(cap=1)
    cast.at["commit a"] = OSError("the provider is down")
    gateway.answer("a", "hello")
    gateway.answer("b", "hello")
    del cast.at["commit a"]
    gateway.shutdown()
    assert cast.did("commit") == ["a/1", "b/1"]
    assert "commit a/1" not in cast.done


def test_after_it_is_tried_again(new: Any, cast: Cast) -> None:
    """G4, G9"""
    gateway = new(cap=1)
    cast.at["commit a"] = OSError("the provider is down")
    gateway.answer("a", "hello")
    gateway.answer("b", "hello")
    gateway.room.settle(PATIENCE)
    assert gateway.room.stats().retained == 1
    del cast.at["commit a"]
    assert gateway.shutdown()
    assert "commit a/1" in cast.done


def completed_during_a_commit(gateway: Any, cast: Cast) -> None:
    gateway.answer("a", "hello")
    cast.at["commit a"] = gate = cast.gate()
    commit = in_thread(lambda: gateway.commit("a"))
    gate.wait_reached()
    gateway.answer("a", "and this?")
    gate.open()
    join_all([commit])
    gateway.commit("a")


def test_before_a_turn_that_completes_during_a_commit_is_taken_for_committed(
    old: Any, cast: Cast
) -> None:
    completed_during_a_commit(old(), cast)
    assert cast.did("commit") == ["a/1"]


def test_after_a_turn_that_completes_during_a_commit_is_committed_by_the_next(
    new: Any, cast: Cast
) -> None:
    """G3"""
    completed_during_a_commit(new(), cast)
    assert cast.did("commit") == ["a/1", "a/1"]


def two_commits_at_once(
    gateway: Any, cast: Cast, again: Callable[[], Callable[[], object]]
) -> list[int]:
    """A commit is under way, a turn completes, and another commit is asked for, and waited for when the
    first may go on. How many were under way when each of them began."""
    gateway.answer("a", "hello")
    gate, underway, seen = cast.gate(), [0], list[int]()

    def commit() -> None:
        underway[0] += 1
        seen.append(underway[0])
        gate.wait()
        underway[0] -= 1

    cast.at["commit a"] = commit
    first = in_thread(lambda: gateway.commit("a"))
    gate.wait_reached()
    gateway.answer("a", "and this?")
    wait_done = again()
    gate.open()
    join_all([first])
    wait_done()
    return seen


def test_before_two_commits_of_a_chat_overlap(old: Any, cast: Cast) -> None:
    gateway = old()

    def again() -> Callable[[], object]:
        second = in_thread(lambda: gateway.commit("a"))
        until(lambda: len(cast.did("commit")) == 2, "a second commit")
        return lambda: join_all([second])

    assert two_commits_at_once(gateway, cast, again) == [1, 2]


def test_after_the_second_commit_waits_for_the_first(new: Any, cast: Cast) -> None:
    """G8"""
    gateway = new()

    def again() -> Callable[[], object]:
        second = gateway.room.session("a").commit()  # `gateway.commit`, without waiting for it
        return lambda: second.get(timeout=PATIENCE)

    assert two_commits_at_once(gateway, cast, again) == [1, 1]


def left_by_a_process(program: str, how: signal.Signals, folder: Path, *store: str) -> str:
    """Have a process answer one message of the chat `a`, and end it. What it has printed then."""
    child = [sys.executable, "-m", "tests.integrations.migration_child", program]
    with subprocess.Popen(
        [*child, str(folder / "memories"), *store], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "answered\n"
            process.send_signal(how)
            assert process.wait(PATIENCE) == (-how if how is signal.SIGKILL else 0)
            return process.stdout.read()
        finally:
            process.kill()


def remembered(folder: Path) -> str:
    memories = folder / "memories"
    return memories.read_text() if memories.exists() else ""


def test_before_a_turn_is_forgotten_when_the_process_is_killed(tmp_path: Path) -> None:
    left_by_a_process("before", signal.SIGKILL, tmp_path)
    gateway = Before(remembering(tmp_path / "memories"))
    gateway.commit("a")
    gateway.shutdown()
    assert remembered(tmp_path) == ""


def test_after_it_is_committed_by_the_next_process_if_there_is_a_store(tmp_path: Path) -> None:
    """Invariant 4"""
    store = f"sqlite:///{tmp_path / 'store.db'}"
    left_by_a_process("after", signal.SIGKILL, tmp_path, store)
    assert remembered(tmp_path) == ""
    gateway = after.Gateway(remembering(tmp_path / "memories"), store=store, lease_ttl=LEASE_TTL)
    try:
        until(lambda: remembered(tmp_path) == "a\n", "a commit")
    finally:
        gateway.shutdown()
    assert remembered(tmp_path) == "a\n"


# 6. The end.


def ended_in_mid_turn(gateway: Any, cast: Cast, *, begun: Callable[[], bool]) -> None:
    cast.at["run a"] = gate = cast.gate()
    turn = answering(gateway, "a")
    gate.wait_reached()
    shutdown = in_thread(gateway.shutdown)
    until(begun, "a shutdown")
    cast.log.append("the turn of a goes on")
    gate.open()
    join_all([turn, shutdown])


def test_before_an_agent_is_closed_in_mid_turn(old: Any, cast: Cast) -> None:
    ended_in_mid_turn(old(), cast, begun=lambda: "close a/1" in cast.done)
    assert cast.log.index("close a/1") < cast.log.index("the turn of a goes on")
    assert cast.did("commit") == []


def test_after_its_turn_ends_first_and_is_committed(new: Any, cast: Cast) -> None:
    """D1"""
    gateway = new()
    ended_in_mid_turn(gateway, cast, begun=lambda: gateway.room.stats().draining)
    assert cast.log[-4:] == ["the turn of a goes on", "commit a/1", "shutdown a/1", "close a/1"]


def test_before_sigterm_skips_what_else_is_to_be_done_at_the_end(tmp_path: Path) -> None:
    assert left_by_a_process("before", signal.SIGTERM, tmp_path) == ""
    assert remembered(tmp_path) == "a\n"


def test_after_sigterm_skips_nothing(tmp_path: Path) -> None:
    assert left_by_a_process("after", signal.SIGTERM, tmp_path) == "all else was done\n"
    assert remembered(tmp_path) == "a\n"


def test_before_one_provider_that_hangs_keeps_all_others_from_being_committed(
    old: Any, cast: Cast
) -> None:
    gateway = old()
    gateway.answer("a", "hello")
    gateway.answer("b", "hello")
    cast.at["commit a"] = gate = cast.gate()
    shutdown = in_thread(gateway.shutdown)
    gate.wait_reached()
    assert cast.did("commit") == ["a/1"]
    assert gateway._lock.locked()
    cast.log.append("the provider of a answers")
    gate.open()
    join_all([shutdown])
    assert cast.log.index("commit b/1") > cast.log.index("the provider of a answers")


def test_after_the_others_are_committed_and_closed_meanwhile(new: Any, cast: Cast) -> None:
    """D2"""
    gateway = new()
    gateway.answer("a", "hello")
    gateway.answer("b", "hello")
    cast.at["commit a"] = gate = cast.gate()
    shutdown = in_thread(lambda: gateway.shutdown(PATIENCE))
    gate.wait_reached()
    until(lambda: "close b/1" in cast.done, "the end of b")
    gate.open()
    join_all([shutdown])


def test_after_the_shutdown_returns_although_a_provider_hangs_and_says_whose(
    new: Any, cast: Cast
) -> None:
    """D2, D3"""
    gateway = new()
    gateway.answer("a", "hello")
    cast.at["commit a"] = cast.gate()
    assert gateway.shutdown(0.1).abandoned == ("a",)


def test_before_a_signal_waits_for_a_lock_that_its_own_thread_holds(old: Any, cast: Cast) -> None:
    gateway = old(cap=1)
    gateway.answer("a", "hello")
    could: list[bool] = []
    # What SIGTERM would find if it came now, on the thread that evicts: shutdown() begins with the lock.
    cast.at["release a"] = lambda: could.append(gateway._lock.acquire(blocking=False))
    gateway.answer("b", "hello")
    assert could == [False]


def test_after_a_signal_in_a_turn_lets_it_end_and_then_the_room(new: Any, cast: Cast) -> None:
    """D1, K1"""
    gateway = new()
    gateway.answer("a", "hello")
    cast.at["run b"] = lambda: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit), after.end_with_the_process(gateway):
        gateway.answer("b", "hello")
    assert sorted(cast.did("commit")) == ["a/1", "b/1"]
    assert cast.farewells() == {"a/1": 1, "b/1": 1}


def test_before_a_message_after_the_end_builds_an_agent_that_nobody_closes(old: Any, cast: Cast) -> None:
    gateway = old()
    gateway.shutdown()
    gateway.answer("a", "hello")
    assert cast.farewells() == {"a/1": 0}


def test_after_the_end_there_are_no_turns(new: Any, cast: Cast) -> None:
    """D1"""
    gateway = new()
    gateway.shutdown()
    with pytest.raises(RoomClosed):
        gateway.answer("a", "hello")
    assert cast.did("build") == []


# The page.


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["before", "after"])
def test_the_page_quotes_the_program_line_by_line(name: str) -> None:
    page = (ROOT / "docs/migration.md").read_text()
    source = (ROOT / f"examples/migration/{name}.py").read_text()
    _, _, program = source.partition("class Gateway:")
    lines = {line.strip() for block in blocks(page) for line in block.splitlines()}

    missing = [line for line in program.splitlines() if line.strip() and line.strip() not in lines]
    assert missing == []


def test_the_page_quotes_nothing_else_as_the_programs() -> None:
    page = (ROOT / "docs/migration.md").read_text()
    programs = "".join(
        (ROOT / f"examples/migration/{name}.py").read_text() for name in ("before", "after")
    )
    quoted = page[: page.index("## In steps")]
    for block in blocks(quoted):
        for part in block.strip("\n").split("\n\n"):
            assert part in programs


def test_a_platform_moves_with_its_agents_and_what_they_have_not_committed(
    old: Any, new: Any, cast: Cast
) -> None:
    """G6"""
    page = (ROOT / "docs/migration.md").read_text()
    (block,) = (block for block in blocks(page) if block.startswith("class Both"))
    names: dict[str, Any] = {}
    exec(block, names)
    cache, room = old(), new().room
    for key in ("telegram:1", "discord:1"):
        cache.answer(key, "hello")

    both = names["Both"](cache, room)
    both.answer("telegram:1", "hello")
    both.answer("telegram:1", "hello")
    both.answer("telegram:2", "hello")
    both.answer("discord:1", "hello")
    assert cast.did("build") == ["telegram:1/1", "discord:1/1", "telegram:2/1"]
    assert room.keys() == ("telegram:1", "telegram:2")
    assert list(cache._agents) == ["discord:1"]


def test_a_turn_that_an_adopted_agent_has_not_committed_is_committed(
    old: Any, new: Any, cast: Cast
) -> None:
    page = (ROOT / "docs/migration.md").read_text()
    (block,) = (block for block in blocks(page) if block.startswith("class Both"))
    names: dict[str, Any] = {}
    exec(block, names)
    cache, gateway = old(), new()
    cache.answer("telegram:1", "hello")
    names["Both"](cache, gateway.room)
    cache.shutdown()
    assert cast.did("commit") == []
    gateway.shutdown()
    assert cast.did("commit") == ["telegram:1/1"]
