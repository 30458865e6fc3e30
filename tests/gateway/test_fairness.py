"""Who may begin next: the decisions alone, without a thread or a loop."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from greenroom.gateway._fairness import Fairness


class Hall:
    """A queue whose tickets are `tenant/key number`, and what has begun so far."""

    def __init__(self, limit: int) -> None:
        self.queue: Fairness[str] = Fairness(limit)
        self.begun: list[str] = []

    def arrive(self, ticket: str, *, first: bool = False) -> None:
        key = ticket.partition(" ")[0]
        self.begun += self.queue.arrive(key.partition("/")[0], key, ticket, first=first)

    def leave(self, ticket: str) -> None:
        key = ticket.partition(" ")[0]
        self.begun += self.queue.leave(key.partition("/")[0], key, ticket)


def test_one_turn_at_a_time_for_each_session_first_come_first_served() -> None:
    hall = Hall(limit=10)
    for number in range(3):
        hall.arrive(f"t/a {number}")
    assert hall.begun == ["t/a 0"]

    hall.leave("t/a 0")
    hall.leave("t/a 1")

    assert hall.begun == ["t/a 0", "t/a 1", "t/a 2"]


def test_no_more_than_the_limit_run_at_once() -> None:
    hall = Hall(limit=2)
    for key in "abc":
        hall.arrive(f"t/{key} 0")
    assert hall.begun == ["t/a 0", "t/b 0"]
    assert (hall.queue.running, hall.queue.waiting) == (2, 1)

    hall.leave("t/b 0")

    assert hall.begun[2:] == ["t/c 0"]


def test_sessions_take_turns_however_long_the_queue_of_one_is() -> None:
    hall = Hall(limit=1)
    for number in range(4):
        hall.arrive(f"t/busy {number}")
    hall.arrive("t/other 0")

    for _ in range(4):
        hall.leave(hall.begun[-1])

    assert hall.begun == ["t/busy 0", "t/other 0", "t/busy 1", "t/busy 2", "t/busy 3"]


def test_tenants_take_turns_however_many_sessions_one_has() -> None:
    hall = Hall(limit=1)
    for key in range(5):
        hall.arrive(f"many/{key} 0")
    hall.arrive("few/a 0")

    for _ in range(3):
        hall.leave(hall.begun[-1])

    assert hall.begun == ["many/0 0", "many/1 0", "few/a 0", "many/2 0"]


def test_one_that_goes_first_goes_before_others_of_its_session_only() -> None:
    hall = Hall(limit=1)
    for ticket in ("t/a 0", "t/a 1", "t/b 0"):
        hall.arrive(ticket)
    hall.arrive("t/a 2", first=True)

    for _ in range(3):
        hall.leave(hall.begun[-1])

    assert hall.begun == ["t/a 0", "t/b 0", "t/a 2", "t/a 1"]


def test_those_that_go_first_keep_their_order() -> None:
    hall = Hall(limit=1)
    for ticket in ("t/a 0", "t/a 1"):
        hall.arrive(ticket)
    for ticket in ("t/a 2", "t/a 3", "t/a 4"):
        hall.arrive(ticket, first=True)
    hall.leave("t/a 3")
    hall.leave("t/a 0")
    hall.arrive("t/a 5", first=True)

    for _ in range(3):
        hall.leave(hall.begun[-1])

    assert hall.begun == ["t/a 0", "t/a 2", "t/a 4", "t/a 5", "t/a 1"]


def test_whoever_goes_away_while_waiting_lets_nobody_else_down() -> None:
    hall = Hall(limit=1)
    for ticket in ("t/a 0", "t/b 0", "u/c 0"):
        hall.arrive(ticket)
    hall.leave("t/b 0")
    hall.leave("t/b 0")

    hall.leave("t/a 0")

    assert hall.begun == ["t/a 0", "u/c 0"]
    assert hall.queue.waiting == 0


def test_a_higher_limit_lets_the_waiting_begin_and_a_lower_one_ends_nobody() -> None:
    hall = Hall(limit=1)
    for key in "abc":
        hall.arrive(f"t/{key} 0")

    assert hall.queue.set_limit(3) == ["t/b 0", "t/c 0"]
    assert hall.queue.set_limit(1) == []
    assert hall.queue.running == 3


def test_those_who_are_dismissed_are_forgotten() -> None:
    hall = Hall(limit=1)
    for ticket in ("t/a 0", "t/a 1", "t/b 0"):
        hall.arrive(ticket)

    assert sorted(hall.queue.dismiss()) == ["t/a 1", "t/b 0"]
    hall.leave("t/a 0")

    assert hall.begun == ["t/a 0"]
    assert (hall.queue.running, hall.queue.waiting) == (0, 0)


KEYS = ("t/a", "t/b", "u/c", "u/d")
STEPS = ("arrive", "first", "leave", "withdraw")


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(KEYS))),
)
def test_whatever_happens_nobody_is_forgotten_and_nobody_runs_twice(
    limit: int, steps: list[tuple[str, str]]
) -> None:
    """A model that knows who is where: all places are in use while somebody may begin."""
    hall = Hall(limit)
    running: dict[str, str] = {}
    waiting: dict[str, list[str]] = defaultdict(list)

    def see() -> None:
        for ticket in hall.begun:
            key = ticket.partition(" ")[0]
            assert key not in running
            waiting[key].remove(ticket)
            running[key] = ticket
        hall.begun.clear()

    for number, (step, key) in enumerate(steps):
        if step in ("arrive", "first"):
            ticket = f"{key} {number}"
            waiting[key].append(ticket)
            hall.arrive(ticket, first=step == "first")
        elif step == "leave" and key in running:
            hall.leave(running.pop(key))
        elif step == "withdraw" and waiting[key]:
            hall.leave(waiting[key].pop())
        see()
        assert hall.queue.running == len(running) <= limit
        assert hall.queue.waiting == sum(map(len, waiting.values()))
        may_begin = [key for key, queue in waiting.items() if queue and key not in running]
        assert len(running) == limit or not may_begin
    while running:
        hall.leave(running.popitem()[1])
        see()
    assert not any(waiting.values())
