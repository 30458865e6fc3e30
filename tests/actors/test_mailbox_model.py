"""A mailbox under concurrent senders, beside a model of it: hypothesis chooses who sends what."""

from __future__ import annotations

import threading
import time
from typing import Any

import hypothesis.strategies as st
import pykka
from hypothesis import HealthCheck, given, settings

from greenroom.actors import Actor, Reply, Runtime
from tests.actors.actors import PATIENCE, all_at_once

actions = st.sampled_from(["tell", "ask", "later", "fail", "self", "stop"])
plans = st.lists(st.lists(actions, max_size=12), min_size=1, max_size=5)


class Subject(Actor):
    """Notes everything it handles, and that nobody else is in here meanwhile."""

    def __init__(self, handled: list[tuple[int, int, str]]) -> None:
        super().__init__()
        self.handled = handled
        self.owed: list[Reply] = []
        self.inside = threading.Lock()

    def on_receive(self, message: tuple[int, int, str]) -> Any:
        assert self.inside.acquire(blocking=False), "two threads in one actor"
        try:
            return self._handle(message)
        finally:
            self.inside.release()

    def _handle(self, message: tuple[int, int, str]) -> Any:
        self.handled.append(message)
        _, number, action = message
        if action == "later":
            self.owed.append(self.defer_reply())
        elif action == "fail":
            msg = "as planned"
            raise ValueError(msg)
        elif action == "self":
            self.actor_ref.tell((-1, len(self.handled), "echo"))
        else:
            while self.owed:
                self.owed.pop().set("answered later")
        return number


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans=plans, batch=st.integers(1, 5))
def test_any_plan_is_handled_in_order_once_and_answered(plans: list[list[str]], batch: int) -> None:
    letters: list[Any] = []
    with Runtime(batch=batch, on_dead_letter=lambda _, message: letters.append(message)) as runtime:
        handled: list[tuple[int, int, str]] = []
        ref = runtime.start(Subject, handled)
        accepted: list[tuple[int, int, str]] = []
        refused: list[tuple[int, int, str]] = []
        futures: list[tuple[tuple[int, int, str], pykka.Future[Any]]] = []

        def send(sender: int, plan: list[str]) -> None:
            for number, action in enumerate(plan):
                message = (sender, number, action)
                if action == "stop":
                    ref.stop(block=False)
                elif action in ("ask", "later", "fail"):
                    futures.append((message, ref.ask(message, block=False)))
                else:
                    try:
                        ref.tell(message)
                        accepted.append(message)
                    except pykka.ActorDeadError:
                        refused.append(message)

        all_at_once([lambda s=s, p=p: send(s, p) for s, p in enumerate(plans)])  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        ref.stop(timeout=PATIENCE)

        # Once each, and in the order of their sender.
        assert len(set(handled)) == len(handled)
        for sender in range(len(plans)):
            numbers = [number for who, number, _ in handled if who == sender]
            assert numbers == sorted(numbers)
        # Every ask is answered: with its value, its exception, or the actor's end.
        for message, future in futures:
            outcome = _outcome(future)
            if message in handled:
                assert outcome in _answers_to(message)
            else:
                assert outcome is pykka.ActorDeadError
        # Every tell was refused, handled or reported; none vanished. (A helper that has closed the
        # mailbox may still be at refusing what came last.)
        deadline = time.monotonic() + PATIENCE
        while set(accepted) - set(handled) - set(letters) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not set(refused) & set(handled)
        for message in accepted:
            assert (message in handled) != (message in letters)


def _outcome(future: pykka.Future[Any]) -> Any:
    try:
        return future.get(timeout=PATIENCE)
    except Exception as error:
        return type(error)


def _answers_to(message: tuple[int, int, str]) -> tuple[Any, ...]:
    _, number, action = message
    if action == "fail":
        return (ValueError,)
    if action == "later":
        return ("answered later", pykka.ActorDeadError)
    return (number,)
