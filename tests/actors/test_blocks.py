"""Whether a function is still in the block of its `with … as`, on this version of Python."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Self

from greenroom.actors.session.blocks import nobody_can_end as left
from tests.actors.actors import PATIENCE, in_thread, join_all


class Turn:
    """What a turn is here: it is entered once, and its end is never heard of."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)


def test_a_block_is_open_until_it_is_left() -> None:
    with Turn() as turn:
        assert not left(turn)
    assert left(turn)


def test_a_block_is_open_wherever_the_function_is_in_it() -> None:
    with Turn() as turn:
        for number in range(3):
            try:
                assert not left(turn)
                if number == 1:
                    raise LookupError
            except LookupError:
                assert not left(turn)
            else:
                assert not left(turn)
            finally:
                assert not left(turn)
        with contextlib.suppress(LookupError):
            assert not left(turn)
            raise LookupError
        while not left(turn):
            break
    assert left(turn)


def test_a_block_that_an_exception_has_ended_is_left() -> None:
    for _ in range(3):
        try:
            with Turn() as turn:
                raise LookupError
        except LookupError:
            assert left(turn)  # pyright: ignore[reportPossiblyUnboundVariable]  # it was entered
            continue


def test_a_variable_that_was_empty_before_tells_as_much() -> None:
    turn: Any = None
    for _ in range(2):
        assert turn is None
        with Turn() as turn:
            assert not left(turn)
        assert left(turn)
        turn = None


def test_a_variable_that_an_inner_function_has_tells_nothing() -> None:
    with Turn() as turn:

        def inner() -> bool:
            return left(turn)

        assert not inner()
    assert not inner()


def test_of_two_blocks_that_share_a_variable_the_open_one_counts() -> None:
    with Turn() as turn:
        assert not left(turn)
    assert left(turn)
    with Turn() as turn:
        assert not left(turn)
    assert left(turn)


def test_a_function_that_was_called_with_the_turn_may_end_it() -> None:
    def called(given: Turn) -> bool:
        return left(given)

    with Turn() as turn:
        assert not called(turn)
    assert not called(turn)
    assert left(turn)


def test_another_block_around_the_same_turn_tells_nothing_while_its_own_is_open() -> None:
    with Turn() as turn:
        with contextlib.nullcontext(turn) as same:
            assert not left(turn)
        assert not left(turn)
    assert left(same)


def test_an_argument_that_is_bound_again_later_tells_nothing() -> None:
    def called(turn: Turn) -> bool:
        found = left(turn)
        with Turn() as turn:
            pass
        return found

    with Turn() as turn:
        assert not called(turn)


def test_a_turn_in_a_block_of_a_generator_is_open() -> None:
    seen: list[bool] = []

    @contextlib.contextmanager
    def wrapped() -> Iterator[Turn]:
        with Turn() as inner:
            yield inner
            seen.append(left(inner))

    with wrapped() as turn:
        assert not left(turn)
    assert seen == [False]
    assert left(turn)


def test_an_object_that_has_the_turn_may_end_it() -> None:
    class Bot:
        turn: Turn

    bot = Bot()
    with Turn() as turn:
        bot.turn = turn
    assert not left(turn)
    del bot.turn
    assert left(turn)


def test_a_turn_that_was_entered_by_hand_is_never_taken_for_left() -> None:
    turn = Turn()
    turn.__enter__()
    with contextlib.nullcontext():
        assert not left(turn)
    assert not left(turn)


def test_a_variable_that_may_have_come_otherwise_tells_nothing() -> None:
    turn = Turn()
    with turn:
        pass
    assert not left(turn)
    with Turn() as turn:
        pass
    assert not left(turn)


def test_a_turn_of_an_exit_stack_is_not_judged() -> None:
    with contextlib.ExitStack() as stack:
        turn = stack.enter_context(Turn())
        assert not left(turn)


def test_a_turn_that_is_being_given_back_is_not_left() -> None:
    seen: list[bool] = []

    class Slow(Turn):
        def __exit__(self, *_: object) -> None:
            seen.append(left(self))

    with Slow() as turn:
        pass
    assert seen == [False]
    assert left(turn)


def test_a_task_is_in_its_block_until_it_has_left_it() -> None:
    async def main() -> None:
        for _ in range(2):
            try:
                async with Turn() as turn:
                    await asyncio.sleep(0)
                    assert not left(turn)
                    raise LookupError
            except LookupError:
                assert left(turn)  # pyright: ignore[reportPossiblyUnboundVariable]  # it was entered

    asyncio.run(main())


def test_the_function_may_run_on_another_thread() -> None:
    turns: list[weakref.ref[Turn]] = []
    inside, leave, outside, end = (threading.Event() for _ in range(4))

    def run() -> None:
        with Turn() as turn:
            turns.append(weakref.ref(turn))
            inside.set()
            assert leave.wait(PATIENCE)
        outside.set()
        assert end.wait(PATIENCE)
        del turn

    def its_turn_is_left() -> bool:
        return left(turns[0]())

    thread = in_thread(run)
    assert inside.wait(PATIENCE)
    assert not its_turn_is_left()
    leave.set()
    assert outside.wait(PATIENCE)
    assert its_turn_is_left()
    end.set()
    join_all([thread])
