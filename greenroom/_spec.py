"""What an agent is built from, and a digest of it: another signature, another agent.

The signature is a SHA-256 over a canonical form in which every piece carries its type and its length, so
that no two contents can be written alike. What counts as the same:

- a mapping, in whatever order its keys come; a list or tuple, in its order; a set, in none;
- toolsets, in whatever order and however often each is named;
- no runtime and an empty one, no extra and an empty one.

What counts as different: `1`, `True`, `1.0`, `"1"` and `b"1"`; an enum's member and its value; a path
and its text; a key whose value is None and a key that is not there; two dataclasses of the same fields.
A dataclass counts with all its fields, those that it leaves out of its own comparison too. What derives
from a plain type (a text that masks its `repr`, a named tuple) counts as that type.

Two specs are equal if their signatures are, so that these rules hold for `==` and in a set as well.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from pathlib import PurePath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from uuid import UUID

from greenroom.actors.runtime._logging import get_log

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

__all__ = ["AgentSpec", "FrozenDict", "signature_of"]

logger = get_log("greenroom")

Path = tuple[str, ...]
"""Where in a spec something stands: the field, and a step for each level below it."""

FORM = b"greenroom.AgentSpec 1\n"
"""Names the canonical form. Whoever changes the form counts this up."""

DEEPEST = 64
"""Levels of nesting. Whatever goes deeper most likely contains itself."""


def _itself(self: T, _: object = None) -> T:
    """Copy what cannot change. A deep copy is asked for with what was copied before."""
    return self


@dataclass(frozen=True, init=False, eq=False, repr=False)
class AgentSpec:
    """What an agent is built from. Another signature, another agent.

    It is immutable, all the way down: it holds copies in which dicts are `FrozenDict`s, lists are tuples
    and sets are frozensets, so that nobody's later change of what was given in reaches it. Its `repr`
    shows the model, the toolsets and the beginning of the signature; so does every error as far as it
    shows anything: which place in the spec is wrong, but not what stands there.

    >>> spec = AgentSpec("gpt-5", runtime={"api_key": "sk-123"}, toolsets=["web", "files", "web"])
    >>> spec.toolsets
    ('files', 'web')
    >>> spec.runtime
    FrozenDict(api_key=…)
    >>> spec == AgentSpec("gpt-5", {"api_key": "sk-123"}, {"files", "web"})
    True

    Use `dataclasses.replace` for one that differs in a field. Not for what changes from turn to turn,
    such as callbacks or reasoning effort: that is set on `turn.agent`, or in `prepare(agent, turn)`.
    """

    model: str
    runtime: Mapping[str, Any]
    """How to reach the model: provider, base URL, API mode, API key, whatever else."""
    toolsets: tuple[str, ...]
    """Sorted, each once: the same order for every agent also keeps the provider's prompt cache."""
    system_prompt: str
    extra: Mapping[str, Any]
    """Whatever else makes it another agent."""

    def __init__(
        self,
        model: str,
        runtime: Mapping[str, Any] | None = None,
        toolsets: Collection[str] = (),
        system_prompt: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        # The signature too, now and not when it is first asked for: what a spec refuses is refused
        # where it is written.
        content, signature = _read_spec(_model(model), runtime, toolsets, system_prompt, extra)
        for name, value in (*content.items(), ("_signature", signature)):
            object.__setattr__(self, name, value)

    if TYPE_CHECKING:
        _signature: str

    @property
    def signature(self) -> str:
        """A digest of all of it: 64 hex digits, the same in every process and run."""
        return self._signature

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AgentSpec):
            return NotImplemented
        return self._signature == other._signature

    def __hash__(self) -> int:
        return hash(self._signature)

    def __repr__(self) -> str:
        return (
            f"{type(self).__qualname__}(model={self.model!r}, toolsets={self.toolsets!r}, "
            f"signature={self._signature[:12]!r}…)"
        )

    __copy__ = __deepcopy__ = _itself

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # The signature does not travel: whoever reads this may know a later canonical form.
        return type(self), tuple(getattr(self, name) for name in FIELDS)


FIELDS = tuple(field.name for field in fields(AgentSpec))


def signature_of(spec: AgentSpec | Mapping[str, Any] | None) -> str | None:
    """Digest a spec, or a mapping that serves as one. None is None: any agent will do.

    A mapping has the signature of the `AgentSpec` with its fields; names that are none of them count as
    extras. It may leave out the model too, unlike an `AgentSpec`.

    >>> signature_of({"model": "gpt-5", "seed": 7}) == AgentSpec("gpt-5", extra={"seed": 7}).signature
    True
    """
    if spec is None:
        return None
    if isinstance(spec, AgentSpec):
        return spec.signature
    if not issubclass(type(spec), Mapping):
        msg = f"a spec is an AgentSpec, a mapping or None, not of type {type(spec).__name__}"
        raise TypeError(msg)
    extra = _mapping("extra", spec.get("extra"))
    others = {name: value for name, value in spec.items() if name not in FIELDS}
    missing = tuple(field for field in FIELDS if field not in spec) if others else ()
    for name in others:
        _hint(_shown(name), missing)
    for name in extra:
        if name in others:
            msg = f"{_shown(name)} stands in extra of the spec and beside it: keep one of the two"
            raise ValueError(msg)
    _, signature = _read_spec(
        _model(spec["model"]) if "model" in spec else None,
        spec.get("runtime"),
        spec.get("toolsets", ()),
        spec.get("system_prompt", ""),
        {**extra, **others},
    )
    return signature


@functools.lru_cache(maxsize=256)
def _hint(name: str, missing: tuple[str, ...]) -> None:
    """Say once that a name is most likely a misspelt field. It may be meant: any mapping serves."""
    for field in difflib.get_close_matches(name, missing, n=1, cutoff=0.8):
        logger.warning("a spec has %r, which counts as an extra: did you mean %r?", name, field)


class FrozenDict(dict[Any, Any]):
    """A dict that stays as it is, and whose `repr` tells the names in it but no values.

    A dict and not merely a mapping, for the sake of whoever builds an agent: client libraries take it as
    it is, in a JSON body too. Its `copy()` is an ordinary dict.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{_shown(key)}=…' for key in self)})"

    __copy__ = __deepcopy__ = _itself

    def __reduce__(self) -> tuple[type[Self], tuple[dict[Any, Any]]]:
        return type(self), (dict(self),)

    # What takes methods away is no subtype of dict, and a type checker says so. To one, these are plain
    # mappings: the fields of AgentSpec are declared so.
    if not TYPE_CHECKING:

        def __hash__(self) -> int:
            return hash(frozenset(self.items()))

        def _refuse_change(self, *args: Any, **kwargs: Any) -> NoReturn:
            msg = "a spec does not change: make another one, for instance with dataclasses.replace()"
            raise TypeError(msg)

        __setitem__ = __delitem__ = __ior__ = _refuse_change
        clear = pop = popitem = setdefault = update = _refuse_change


# Checks


def _model(value: Any) -> str:
    model = _text("model", value)
    if not model.strip():
        msg = "model of the spec is empty: name a model"
        raise ValueError(msg)
    return model


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        msg = f"{name} of the spec must be a str, not {type(value).__name__}"
        raise TypeError(msg)
    return str.__str__(value)  # a StrEnum's member says what it stands for


def _names(name: str, value: Any) -> tuple[str, ...]:
    kind = _kind(value)
    if issubclass(kind, str):
        msg = f"{name} of the spec is a single str, each letter of it a name: give a list of names"
        raise TypeError(msg)
    # An iterator would be used up by the first look at it, and the second would see another spec.
    if issubclass(kind, Mapping) or not issubclass(kind, Collection):
        msg = f"{name} of the spec must be a list, tuple or set of names, not {kind.__name__}"
        raise TypeError(msg)
    return tuple(sorted({_text(f"each of {name}", item) for item in value}))


def _mapping(name: str, value: Any) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not issubclass(type(value), Mapping):
        msg = f"{name} of the spec must be a mapping or None, not {type(value).__name__}"
        raise TypeError(msg)
    return value  # type: ignore[no-any-return]  # just looked


def _kind(value: object) -> type[Any]:
    """The class that it has, not one that it claims to have: a mock claims anything."""
    return type(value)


def _shown(key: object) -> str:
    """Name a key, if it is plainly a name: of anything else nobody knows that it is no secret."""
    return key if isinstance(key, str) and key.isidentifier() and len(key) <= 40 else "…"


# Copies that cannot change, and the canonical form


WRITTEN: dict[type[Any], tuple[bytes, Callable[[Any], str]]] = {
    str: (b"text", str.__str__),
    type(None): (b"none", lambda _: ""),
    bool: (b"truth", str),
    int: (b"whole", lambda number: int.__format__(number, "x")),  # decimals have a limit, this has none
    float: (b"float", float.hex),
    bytes: (b"bytes", bytes.hex),
    datetime: (b"datetime", lambda moment: moment.isoformat()),
    date: (b"date", lambda day: day.isoformat()),
    time: (b"time", lambda hour: hour.isoformat()),
    timedelta: (b"span", str),
    PureWindowsPath: (b"windows", str),
    PurePath: (b"path", str),
    UUID: (b"uuid", str),
    Decimal: (b"decimal", str),
}
"""How plain types are written. For what derives from them the first that fits counts."""


Read = tuple[Any, bytes]
"""A copy of something that cannot change, and the thing in its canonical form."""


def _read_spec(
    model: str | None, runtime: Any, toolsets: Any, system_prompt: Any, extra: Any
) -> tuple[dict[str, Any], str]:
    """Return the fields as they can be kept, and the signature."""
    read = {
        "model": _read(model, ("model",)),
        "runtime": _read(_mapping("runtime", runtime), ("runtime",)),
        "toolsets": _read(_names("toolsets", toolsets), ("toolsets",)),
        "system_prompt": _read(_text("system_prompt", system_prompt), ("system_prompt",)),
        "extra": _read(_mapping("extra", extra), ("extra",)),
    }
    signature = hashlib.sha256(FORM + _written_fields(read)).hexdigest()
    return {name: kept for name, (kept, _) in read.items()}, signature


def _read(value: Any, path: Path) -> Read:
    """Copy as far as something could change. Refuse what has no content of its own."""
    if len(path) > DEEPEST:
        msg = f"{''.join(path[:4])}… of the spec goes deeper than {DEEPEST} levels, or contains itself"
        raise ValueError(msg)
    kind = _kind(value)
    if kind in WRITTEN:
        return value, _plain(value, kind)
    if issubclass(kind, Enum):
        member = value.value if issubclass(kind, Flag) else value.name
        return value, _piece(b"enum", _plain(_full_name(kind)) + _read(member, path)[1])
    if is_dataclass(kind):
        return _read_record(value, path)
    for plain in WRITTEN:
        if issubclass(kind, plain):
            return value, _plain(value, plain)
    if issubclass(kind, bytearray):
        return _read(bytes(value), path)
    if issubclass(kind, Mapping):
        pairs = [
            (_read(key, (*path, "[a key]")), _read(item, (*path, f"[{_shown(key)}]")))
            for key, item in value.items()
        ]
        kept = FrozenDict((key, item) for (key, _), (item, _) in pairs)
        return kept, _piece(b"map", b"".join(sorted(key + item for (_, key), (_, item) in pairs)))
    if issubclass(kind, list | tuple):
        items = [_read(item, (*path, f"[{index}]")) for index, item in enumerate(value)]
        make: Callable[[list[Any]], Any] = getattr(value, "_make", tuple)  # a named tuple stays one
        return make([item for item, _ in items]), _piece(b"list", b"".join(item for _, item in items))
    if issubclass(kind, Set):
        items = [_read(item, (*path, "[…]")) for item in value]
        return frozenset(item for item, _ in items), _piece(
            b"set", b"".join(sorted(item for _, item in items))
        )
    msg = (
        f"{''.join(path)} of the spec is of type {kind.__name__}, in which no two processes see the "
        "same: give text, numbers, bytes, dates, paths, enums, frozen dataclasses, or mappings, lists "
        "and sets of these. What changes from turn to turn (callbacks, reasoning effort, step limits) "
        "is no part of a spec: set it on turn.agent, or in prepare(agent, turn)"
    )
    raise TypeError(msg)


def _read_record(value: Any, path: Path) -> Read:
    kind = _kind(value)
    if not kind.__dataclass_params__.frozen:
        msg = (
            f"{''.join(path)} of the spec is a {kind.__name__}, a dataclass that can change: declare it "
            "with frozen=True, or give dataclasses.asdict() of it"
        )
        raise TypeError(msg)
    before = {field.name: getattr(value, field.name) for field in fields(kind)}
    read = {name: _read(item, (*path, f".{name}")) for name, item in before.items()}
    written = _piece(b"record", _plain(_full_name(kind)) + _written_fields(read))
    if isinstance(value, AgentSpec) or all(read[name][0] is before[name] for name in before):
        return value, written
    twin = object.__new__(kind)  # and not copy.copy(), which is free to return the very same object
    kept = {name: item for name, (item, _) in read.items()}
    for name, item in {**getattr(value, "__dict__", {}), **kept}.items():
        object.__setattr__(twin, name, item)
    return twin, written


def _written_fields(read: dict[str, Read]) -> bytes:
    pairs = sorted(_plain(name) + written for name, (_, written) in read.items())
    return _piece(b"map", b"".join(pairs))


def _plain(value: Any, plain: type[Any] = str) -> bytes:
    tag, write = WRITTEN[plain]
    # Half a surrogate pair is no reason to fail: the error would show the text.
    return _piece(tag, write(value).encode("utf-8", "surrogatepass"))


def _piece(tag: bytes, content: bytes) -> bytes:
    """A type, a length, and so much content. No tag holds a digit or a colon."""
    return b"%b%d:%b" % (tag, len(content), content)


def _full_name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
