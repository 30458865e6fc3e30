"""Whether the block of a `with … as turn` is still open, as the code of its function tells.

An exception that strikes on entry to `__exit__` leaves the block, and runs none of our code. If the
function catches it and goes on, its variable keeps the turn alive:

    while True:
        try:
            with room.turn(key) as turn:        # 1. struck on entry to __exit__: the block is left
                ...
        except KeyboardInterrupt:
            continue                            # 2. `turn` still refers to the turn of 1

What can be known: a variable that only ever gets its value from `with … as` got the turn from such a
block of its function. The function is in the block as long as it is at an instruction whose exceptions
come to the end of the block: CPython's table of exceptions says so. If it is not, the block was left,
unless something else that refers to the turn may still end it: a function that is inside a block of the
same turn, a variable that may have come otherwise (entered by hand), an object, a suspended generator.
"""

from __future__ import annotations

import dis
import gc
import inspect
import itertools
import sys
import threading
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from greenroom.actors.runtime._stillness import stand_still

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

__all__ = ["has_left", "is_exit", "nobody_can_end"]

EXITS = ("__exit__", "__aexit__")

END_OF_WITH = dis.opmap["WITH_EXCEPT_START"]

ARGUMENTS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS

COPIES = sys.version_info < (3, 13)
"""Whether a frame that was asked for its variables keeps a copy of them."""

LOOKING = {__name__, "greenroom.actors.session.holding"}
"""The modules that have the turn in a variable because they look for it."""


def nobody_can_end(turn: object) -> bool:
    """Tell whether the block of this turn was left, and nothing that refers to the turn may end it.

    Looks at all objects there are, which takes as long as a garbage collection.
    """
    left = False
    modules: list[dict[str, Any]] = []
    holders: list[Any] = gc.get_referrers(turn)
    for holder in holders:
        if isinstance(holder, FrameType):  # of a function that has ended
            if is_exit(holder, turn):
                return True
            left = left or has_left(holder, turn) is True
        elif (suspended := _frame_of(holder)) is not None:
            if is_exit(suspended, turn) or not has_left(suspended, turn):
                return False
            left = True
        elif type(holder) is dict:
            modules.append(cast("dict[str, Any]", holder))
        else:
            return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False  # nobody may look at the variables of other threads
    for frame in _running():
        if is_exit(frame, turn):
            return False  # it is being given back
        judged = has_left(frame, turn)
        if judged is False:
            return False
        left = left or judged is True
        if frame.f_code.co_name == "<module>":
            modules = [module for module in modules if module is not frame.f_globals]
    return left and not modules


def is_exit(frame: FrameType, turn: object) -> bool:
    """Tell whether this is the exit of the turn."""
    return frame.f_code.co_name in EXITS and _variables_of(frame).get("self") is turn


def has_left(frame: FrameType, turn: object) -> bool | None:
    """Tell whether a function has entered this turn by `with … as`, and has left that block. `None`: the
    turn is in none of its variables."""
    code, variables = frame.f_code, _variables_of(frame)
    names = [name for name, value in variables.items() if value is turn]
    if COPIES and code.co_flags & inspect.CO_OPTIMIZED:
        for name in names:
            kept = stand_still(partial(getattr, frame, "f_locals"))
            kept.pop(name, None)  # or the frame would keep the turn
    for name in names:
        if not _is_outside(code, frame.f_lasti, name):
            return False
    return True if names else None


def _variables_of(frame: FrameType) -> dict[str, Any]:
    """The variables of a function, which may run on another thread. Others may look at it, too, and
    `f_locals` gives all of them the same dict up to Python 3.12: this is a copy, made as they are."""
    return stand_still(partial(next, map(dict, map(getattr, (frame,), ("f_locals",)))))


def _frame_of(holder: Any) -> FrameType | None:
    """The frame of a generator or coroutine, if it is one."""
    for kind in ("gi_frame", "cr_frame", "ag_frame"):
        if not hasattr(holder.__class__, kind):
            continue
        frame: Any = stand_still(partial(getattr, holder, kind, None))
        if isinstance(frame, FrameType):
            return frame
    return None


def _running() -> Iterator[FrameType]:
    """The functions that run, on whichever thread, but for those that look for the turn: a frame that is
    in a variable of its own function keeps itself, and all its variables."""
    here: FrameType | None = sys._getframe()
    while here is not None and here.f_globals.get("__name__") in LOOKING:
        here = here.f_back
    innermost: dict[int, FrameType | None] = {
        **stand_still(sys._current_frames),
        threading.get_ident(): here,
    }
    for frame in innermost.values():
        while frame is not None:
            yield frame
            frame = stand_still(partial(getattr, frame, "f_back"))


def _is_outside(code: CodeType, at: int, name: str) -> bool:
    """Tell whether all values of a variable come from `with … as`, and none of these blocks is open."""
    arguments = (
        code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & f) for f in ARGUMENTS)
    )
    if END_OF_WITH not in code.co_code[::2] or name in code.co_varnames[:arguments]:
        return False
    instructions = list(dis.get_instructions(code))
    bytecode: Any = dis.Bytecode(code)
    entries = bytecode.exception_entries
    where = {instruction.offset: i for i, instruction in enumerate(instructions)}

    def handler(offset: int) -> int | None:
        return next((entry.target for entry in entries if entry.start <= offset < entry.end), None)

    # An entry of the table says what handles exceptions in a range of instructions. That of a `with`
    # begins with the store of what `__enter__` returned.
    ends: dict[int, int] = {}
    for entry in entries:
        if instructions[where[entry.target] + 1].opcode == END_OF_WITH:
            ends[entry.target] = min(entry.start, ends.get(entry.target, entry.start))
    blocks = {end for end, start in ends.items() if _stores(instructions[where[start]], name)}
    starts = {ends[end] for end in blocks}
    for before, store in itertools.pairwise(instructions):
        plain = before.opname.startswith(("LOAD_CONST", "LOAD_COMMON_CONSTANT"))  # `turn = None`
        if _stores(store, name) and store.offset not in starts and not plain:
            return False
    around: list[int] = []
    end = handler(at)
    while end is not None and end not in around:
        around.append(end)
        end = handler(end)
    return bool(blocks) and blocks.isdisjoint(around)


def _stores(instruction: dis.Instruction, name: str) -> bool:
    value: Any = instruction.argval
    names: tuple[Any, ...] = cast("Any", value) if isinstance(value, tuple) else (value,)
    if not instruction.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_DEREF")):
        return False
    return name in names if instruction.opname.count("STORE") > 1 else names[0] == name
