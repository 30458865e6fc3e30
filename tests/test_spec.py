"""Specs and their signatures."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import random
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Flag, IntEnum, IntFlag, StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from greenroom._spec import DEEPEST, FIELDS, AgentSpec, FrozenDict, signature_of
from tests.house import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

RUNTIME = {"provider": "openai", "base_url": "https://llm", "api_mode": "chat", "api_key": "sk-abc-1"}

EXAMPLE = AgentSpec(
    "gpt-5", runtime=RUNTIME, toolsets=["web", "files"], system_prompt="Be brief.", extra={"seed": 7}
)

untyped: Any = AgentSpec
untyped_signature_of: Any = signature_of

# Few and alike, so that equal and nearly equal contents turn up often.
scalars = st.sampled_from([None, False, True, 0, 1, 0.0, 1.0, "", "0", "1", "a", b"", b"1"])
contents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(scalars, inner, max_size=3)
        | st.frozensets(scalars, max_size=3)
    ),
    max_leaves=6,
)
names = st.text(max_size=8)
mappings = st.dictionaries(names, contents, max_size=5)

# No letter of these is a hex digit, so that no signature holds one by chance.
secrets = st.text("GHJKLMNPQRSTUVWXYZ", min_size=8, max_size=30).map("sk-".__add__)


class Mode(StrEnum):
    CHAT = "chat"
    RESPONSES = "responses"


class OtherMode(StrEnum):
    CHAT = "chat"


class Level(IntEnum):
    ONE = 1


class Rights(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag):
    """Takes bits that have no name, too."""

    FIRST = 1


class Point(NamedTuple):
    x: int
    tags: list[str]


@dataclass(frozen=True)
class Options:
    seed: int = 1
    tags: list[str] = field(default_factory=list[str], compare=False)


@dataclass(frozen=True, slots=True)
class SlottedOptions:
    seed: int = 1
    tags: list[str] = field(default_factory=list[str], compare=False)


@dataclass
class Mutable:
    secret: str


def extra_signature(content: Any) -> str:
    return AgentSpec("m", extra={"content": content}).signature


def in_another_order(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, in_another_order(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [in_another_order(item, order) for item in value]
    return value


def exactly(value: Any) -> Any:
    """A model of the signature: `==` of two of these tells types apart, and no orders of keys."""
    if isinstance(value, dict):
        return "map", frozenset((exactly(key), exactly(item)) for key, item in value.items())
    if isinstance(value, frozenset):
        return "set", frozenset(exactly(item) for item in value)
    if isinstance(value, list):
        return "list", tuple(exactly(item) for item in value)
    return type(value), value


# Equal specs, equal signatures


@given(
    runtime=mappings,
    extra=mappings,
    toolsets=st.lists(names, max_size=5),
    order=st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_no_order_of_keys_or_toolsets_matters(
    runtime: dict[str, Any], extra: dict[str, Any], toolsets: list[str], order: random.Random
) -> None:
    """I1"""
    spec = AgentSpec("m", runtime, toolsets, "prompt", extra)
    shuffled = [*toolsets, *toolsets[:2]]
    order.shuffle(shuffled)

    twin = AgentSpec(
        "m", in_another_order(runtime, order), shuffled, "prompt", in_another_order(extra, order)
    )

    assert twin.signature == spec.signature
    assert twin == spec
    assert hash(twin) == hash(spec)
    assert twin.toolsets == spec.toolsets


@given(one=contents, other=contents)
@settings(max_examples=500, deadline=None)
def test_contents_share_a_signature_if_they_are_exactly_the_same(one: Any, other: Any) -> None:
    """I1, I2"""
    assert (extra_signature(one) == extra_signature(other)) == (exactly(one) == exactly(other))


SCRIPT = """
from datetime import datetime
from pathlib import PurePosixPath
from uuid import UUID
from greenroom._spec import AgentSpec

spec = AgentSpec(
    "gpt-5",
    runtime={"provider": "openai", "api_key": "sk-1", "headers": {"a": "1", "b": "2"}},
    toolsets={"web", "files", "shell", "browser"},
    system_prompt="Grüße \U0001f44b",
    extra={
        "set": {"a", "b", "c", 1, None}, "at": datetime(2026, 11, 15), "nan": float("nan"),
        "path": PurePosixPath("/x"), "id": UUID(int=7), "nested": AgentSpec("m"), 1: b"x", None: -0.0,
    },
)
"""


@pytest.mark.parametrize("seed", ["0", "1", "4321"])
def test_another_process_with_another_hash_seed_computes_the_same_signature(seed: str) -> None:
    """I1"""
    here: dict[str, Any] = {}
    exec(SCRIPT, here)

    there = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", f"{SCRIPT}\nprint(spec.signature)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )

    assert there.stdout.strip() == here["spec"].signature


def test_the_canonical_form_stays_as_it_is() -> None:
    """I1: also from one release to the next. Whoever must change the form counts up FORM."""
    assert EXAMPLE.signature == "a71c18f9d145427cb9db80475c20569ae066885adf24cc912a80986b082ea95e"


FORMS: dict[str, tuple[Any, str]] = {
    "plain": (
        [None, True, 1, -255, 1.5, -0.0, "ü\ud800", b"\x00a", bytearray(b"b")],
        "ea6ecc6063903b545e066e24d3916ca2fa31102c8f6f8a122983d4bebbe50ec1",
    ),
    "time": (
        [
            datetime(2026, 11, 15, tzinfo=UTC),
            date(2026, 11, 15),
            time(1, 2),
            timedelta(days=1, microseconds=1),
        ],
        "d191d570ab8978b079a5213cd8903fb75952a0a42a9936c7bada3cb174ab88aa",
    ),
    "name": (
        [PurePosixPath("a/b"), PureWindowsPath("a/b"), UUID(int=7), Decimal("1.0")],
        "f7953eaba76c4c95ac1d2f48fa57d4ced3316d0a5d7bb69b833d4d8b68dd92bb",
    ),
    "nested": (
        {"map": {"b": [1, {"c"}], 2: ({}, ())}, None: {3, "d"}},
        "28558ee521feca75ac89e8f31cb9ff3ffb18fa4e07b690a9c2980a43e3ab406e",
    ),
    "enum": (
        [Mode.CHAT, Level.ONE, Rights.READ | Rights.WRITE, Bits(8)],
        "09cf8282c3308c285d37ef10aed5328a832ad8e67d89e767d9517b03e48db8f1",
    ),
    "record": (
        [
            Options(1, ["a"]),
            SlottedOptions(2),
            Point(1, ["a"]),
            AgentSpec("m", extra={"a": [Options()]}),
        ],
        "b84b1512090713a455689372133e944c01e79efac9f89d5a4c81f9f116e8ac47",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_canonical_form_of_every_type_stays_as_it_is(form: str) -> None:
    """I1"""
    content, signature = FORMS[form]

    assert extra_signature(content) == signature


def test_the_canonical_form_of_a_mapping_without_a_model_stays_as_it_is() -> None:
    """I1"""
    nothing = "ed0e021c9ddc70f4b04bdeb78a869374f799efc19d4fc592668239948e4c155a"
    only_extra = "70298da3139bc8f8c399928312cba9e0ffbdda6270e4ef7759703e0ac29a9bad"

    assert signature_of({}) == nothing
    assert signature_of({"seed": 7}) == only_extra


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, [2]], (1, (2,))),
        ({1, 2}, frozenset({2, 1})),
        ({"a": 1}.keys(), {"a"}),
        ({"a": 1}, FrozenDict(a=1)),
        (bytearray(b"x"), b"x"),
        (Point(1, ["a"]), (1, ["a"])),
        (Path("a/b"), PurePath("a/b")),
        (float("nan"), float("nan")),
        (Options(1, ["a"]), Options(1, ["a"])),
        (Rights.READ | Rights.WRITE, Rights.WRITE | Rights.READ),
    ],
    ids=repr,
)
def test_what_says_the_same_has_the_same_signature(one: Any, other: Any) -> None:
    """I1"""
    assert extra_signature(one) == extra_signature(other)


def test_nothing_and_an_empty_mapping_are_the_same() -> None:
    """I1"""
    assert AgentSpec("m") == AgentSpec("m", runtime={}, toolsets=[], system_prompt="", extra={})


def test_a_signature_is_a_hex_digest_that_is_computed_once() -> None:
    """I1"""
    assert len(EXAMPLE.signature) == 64
    assert int(EXAMPLE.signature, 16)
    with mock.patch("hashlib.sha256", side_effect=AssertionError("computed again")):
        assert EXAMPLE.signature is EXAMPLE.signature


# Another content, another signature


@pytest.mark.parametrize(
    "change",
    [
        {"model": "gpt-5-mini"},
        {"runtime": {**RUNTIME, "provider": "azure"}},
        {"runtime": {**RUNTIME, "base_url": "https://llm/"}},
        {"runtime": {**RUNTIME, "api_mode": "responses"}},
        {"runtime": {**RUNTIME, "api_key": "sk-abc-2"}},
        {"runtime": {**RUNTIME, "api_key": None}},
        {"runtime": {name: RUNTIME[name] for name in ("provider", "base_url", "api_mode")}},
        {"runtime": {**RUNTIME, "region": None}},
        {"toolsets": ["web"]},
        {"toolsets": ["web", "files", "shell"]},
        {"toolsets": ["webfiles"]},
        {"system_prompt": "Be brief. "},
        {"extra": {"seed": 8}},
        {"extra": {"Seed": 7}},
        {"extra": {}},
        {"extra": RUNTIME, "runtime": {"seed": 7}},
    ],
    ids=str,
)
def test_each_part_of_a_spec_changes_its_signature(change: dict[str, Any]) -> None:
    """I2"""
    other = dataclasses.replace(EXAMPLE, **change)

    assert other.signature != EXAMPLE.signature
    assert other != EXAMPLE
    assert len({other, EXAMPLE}) == 2


@given(prefix=st.text(max_size=300), one=st.text(max_size=3), other=st.text(max_size=3))
@settings(deadline=None)
def test_two_api_keys_that_share_a_prefix_differ(prefix: str, one: str, other: str) -> None:
    """I2"""
    first = AgentSpec("m", runtime={"api_key": prefix + one})
    second = AgentSpec("m", runtime={"api_key": prefix + other})

    assert (first.signature == second.signature) == (one == other)


def test_contents_that_look_alike_have_signatures_of_their_own() -> None:
    """I2"""
    alike: list[Any] = [
        *(None, "None", "", [], {}, set[int](), [None], [[]], [{}], {"": None}, "[]"),
        *(1, True, 1.0, "1", b"1", "0x1", [1], {1}, Level.ONE, Decimal(1), {1: None}, {"1": None}),
        *(0.0, -0.0, 0, False, timedelta(0), float("nan"), float("inf"), "nan"),
        *("chat", Mode.CHAT, Mode.RESPONSES, OtherMode.CHAT, "Mode.CHAT", b"chat"),
        *(Rights.READ, Rights.WRITE, Rights.READ | Rights.WRITE, Rights(0), Bits(8), Bits(16)),
        *("a/b", PurePosixPath("a/b"), PureWindowsPath("a/b"), "a\\b"),
        *("a.", PurePosixPath("a."), PureWindowsPath("a.")),
        *(date(2026, 11, 15), datetime(2026, 11, 15), "2026-11-15", datetime(2026, 11, 15, tzinfo=UTC)),
        datetime(2026, 11, 15, tzinfo=timezone(timedelta(hours=1))),
        *(time(0), "00:00:00", time(0, tzinfo=UTC), timedelta(days=1), timedelta(microseconds=1)),
        *(UUID(int=1), str(UUID(int=1)), Decimal("1.0"), 10**5000, 10**5000 + 1),
        *(Options(), SlottedOptions(), Options(2), Options(1, ["a"]), {"seed": 1, "tags": []}),
        *(AgentSpec("m"), AgentSpec("n"), {"model": "m"}),
        *(["a", "b"], ["b", "a"], ["ab"], [["a"], "b"], [["a", "b"]]),
        *({"a", "b"}, {"a": "b"}, {"b": "a"}),
        *("\ud800", "\udfff", "ü", "u\u0308"),
    ]

    signatures = [extra_signature(content) for content in alike]

    assert len(set(signatures)) == len(alike)


def test_equality_tells_apart_what_the_signature_tells_apart() -> None:
    """I1: `{"seed": 1} == {"seed": True}`, but specs of these are two."""
    assert AgentSpec("m", extra={"seed": 1}) != AgentSpec("m", extra={"seed": True})
    assert AgentSpec("m") != "m"


# Mappings as specs


@given(
    runtime=st.none() | mappings,
    extra=mappings,
    toolsets=st.lists(names, max_size=3),
    prompt=st.text(max_size=5),
)
@settings(deadline=None)
def test_a_mapping_has_the_signature_of_the_spec_that_it_stands_for(
    runtime: dict[str, Any] | None, extra: dict[str, Any], toolsets: list[str], prompt: str
) -> None:
    """I1"""
    spec = AgentSpec("m", runtime, toolsets, prompt, extra)
    fields: dict[str, Any] = {
        "system_prompt": prompt,
        "toolsets": toolsets,
        "runtime": runtime,
        "model": "m",
    }
    beside = {name: value for name, value in extra.items() if name not in FIELDS}
    inside = {name: value for name, value in extra.items() if name in FIELDS}

    assert signature_of(spec) == spec.signature
    assert signature_of({**fields, "extra": extra}) == spec.signature
    assert signature_of({**beside, **fields, "extra": inside}) == spec.signature
    assert signature_of(dataclasses.asdict(spec)) == spec.signature


def test_a_name_in_a_mapping_that_looks_like_a_misspelt_field_is_hinted_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """I2: it counts as an extra, for it may be meant."""
    extra = {"toolset": ["web"], "system_promt": "be kind", "seed": 7}  # named nowhere else
    signatures = {signature_of({"model": "m", **extra}) for _ in range(3)}
    assert signatures == {AgentSpec("m", extra=extra).signature}

    assert [record.getMessage() for record in caplog.records] == [
        "a spec has 'toolset', which counts as an extra: did you mean 'toolsets'?",
        "a spec has 'system_promt', which counts as an extra: did you mean 'system_prompt'?",
    ]


def test_a_name_beside_the_field_that_it_looks_like_is_meant(caplog: pytest.LogCaptureFixture) -> None:
    """I2"""
    spec: dict[Any, Any] = {"model": "m", "mode": "fast", "models": ["n"], "provider": "p", 7: 8}
    signature_of(spec)
    assert caplog.records == []


def test_a_mapping_may_leave_out_everything() -> None:
    """I1"""
    assert signature_of({"model": "m"}) == AgentSpec("m").signature
    assert signature_of({"model": "m", "seed": 7}) == AgentSpec("m", extra={"seed": 7}).signature
    assert len({signature_of({}), signature_of({"seed": 7}), signature_of({"model": "m"})}) == 3


def test_extras_inside_and_beside_extra_are_one() -> None:
    """I1"""
    both = signature_of({"model": "m", "extra": {"seed": 7}, "top_p": 0.5})

    assert both == AgentSpec("m", extra={"seed": 7, "top_p": 0.5}).signature


def test_no_spec_has_no_signature() -> None:
    """I1: any agent will do."""
    assert signature_of(None) is None


def test_the_same_extra_twice_is_refused() -> None:
    """I2"""
    with pytest.raises(ValueError, match="seed stands in extra of the spec and beside it"):
        signature_of({"extra": {"seed": 7}, "seed": 8})


@pytest.mark.parametrize("spec", ["gpt-5", ["gpt-5"], 5, AgentSpec])
def test_what_is_no_spec_is_refused(spec: Any) -> None:
    """I1"""
    with pytest.raises(TypeError, match="an AgentSpec, a mapping or None"):
        signature_of(spec)


# What a spec holds stays as it is


def test_later_changes_of_what_was_given_reach_nothing() -> None:
    """I1"""
    tags = ["a"]
    runtime: dict[str, Any] = {"api_key": "sk-1", "headers": {"x": "1"}}
    extra: dict[str, Any] = {
        "list": [[1]],
        "set": {1},
        "bytes": bytearray(b"a"),
        "options": Options(1, tags),
        "slotted": SlottedOptions(1, tags),
        "point": Point(1, tags),
    }
    toolsets = ["web"]
    spec = AgentSpec("m", runtime, toolsets, "", extra)
    before = AgentSpec("m", copy.deepcopy(runtime), ["web"], "", copy.deepcopy(extra))

    runtime["headers"]["x"] = "2"
    runtime["api_key"] = "sk-2"
    toolsets.append("files")
    extra["list"][0].append(2)
    extra["set"].add(2)
    extra["bytes"].append(2)
    tags.append("b")

    again = AgentSpec(spec.model, spec.runtime, spec.toolsets, spec.system_prompt, spec.extra)
    assert again.signature == spec.signature == before.signature
    assert spec.extra["options"] == Options(1)
    assert spec.extra["options"].tags == spec.extra["slotted"].tags == spec.extra["point"].tags == ("a",)
    assert extra["options"].tags is tags, "the caller's own object was changed"


def test_what_cannot_change_is_kept_and_not_copied() -> None:
    """I1"""
    nested = AgentSpec("m", runtime=RUNTIME)
    point = Options(1, ())  # type: ignore[arg-type]  # as immutable as it can be

    spec = AgentSpec("m", extra={"nested": nested, "options": point})

    assert spec.extra["nested"] is nested
    assert spec.extra["options"] is point


def assign(spec: Any) -> None:
    spec.model = "other"


def add(spec: Any) -> None:
    spec.other = 1


def delete(spec: Any) -> None:
    del spec.extra


def merge(spec: Any) -> None:
    runtime = spec.runtime
    runtime |= {"a": 1}


CHANGES: dict[str, Callable[[Any], Any]] = {
    "assign": assign,
    "add": add,
    "delete": delete,
    "merge": merge,
    "update": lambda spec: spec.runtime.update(a=1),
    "set an item": lambda spec: spec.runtime.__setitem__("a", 1),
    "delete an item": lambda spec: spec.runtime.__delitem__("api_key"),
    "pop": lambda spec: spec.runtime.pop("api_key"),
    "pop any": lambda spec: spec.runtime.popitem(),
    "clear": lambda spec: spec.runtime.clear(),
    "set a default": lambda spec: spec.runtime.setdefault("a", 1),
}

COPIES: dict[str, Callable[[AgentSpec], AgentSpec]] = {
    "itself": lambda spec: spec,
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "pickled": lambda spec: pickle.loads(pickle.dumps(spec)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("duplicate", COPIES)
def test_neither_a_spec_nor_a_copy_of_it_can_be_changed(change: str, duplicate: str) -> None:
    """I1"""
    spec = COPIES[duplicate](EXAMPLE)

    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        CHANGES[change](spec)

    assert dict(spec.runtime) == RUNTIME
    assert spec == EXAMPLE
    assert spec.signature == AgentSpec(*(getattr(spec, name) for name in spec.__match_args__)).signature


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_spec_computes_its_signature_again(protocol: int) -> None:
    """I1"""
    pickled = pickle.dumps(EXAMPLE, protocol)

    assert EXAMPLE.signature.encode() not in pickled
    assert pickle.loads(pickled).signature == EXAMPLE.signature


def test_a_replaced_field_makes_another_spec() -> None:
    """I2"""
    other = dataclasses.replace(EXAMPLE, model="gpt-5-mini")

    assert (other.model, other.runtime) == ("gpt-5-mini", EXAMPLE.runtime)
    assert other.signature != EXAMPLE.signature


def test_a_client_library_takes_the_settings_as_they_are() -> None:
    extra = AgentSpec("m", extra={"body": {"order": ["a", "b"], "strict": True}}).extra

    assert json.loads(json.dumps(extra)) == {"body": {"order": ["a", "b"], "strict": True}}
    assert dict(**extra) == extra
    assert type(extra["body"].copy()) is dict
    assert hash(extra) == hash(copy.deepcopy(extra))


# No secret gets out


@given(secret=secrets)
@settings(deadline=None)
def test_no_secret_is_in_a_repr_or_a_signature(secret: str) -> None:
    """I3"""
    spec = AgentSpec(
        "m",
        runtime={"api_key": secret, "headers": {"Authorization": f"Bearer {secret}"}, secret: "by key"},
        toolsets=["web"],
        system_prompt=f"The password is {secret}",
        extra={"options": [secret], "bytes": secret.encode()},
    )

    for shown in (spec, spec.runtime, spec.runtime["headers"], spec.extra):
        assert secret not in f"{shown} {shown!r} %s {{}}" % (shown,)
    assert secret not in spec.signature


def test_a_repr_shows_the_model_the_toolsets_and_the_beginning_of_the_signature() -> None:
    """I3"""
    shown = repr(EXAMPLE)

    assert (
        shown
        == f"AgentSpec(model='gpt-5', toolsets=('files', 'web'), signature='{EXAMPLE.signature[:12]}'…)"
    )
    assert str(EXAMPLE) == shown
    assert repr(EXAMPLE.runtime) == "FrozenDict(provider=…, base_url=…, api_mode=…, api_key=…)"


def endless(secret: str) -> dict[str, Any]:
    circle: dict[str, Any] = {"api_key": secret}
    circle["again"] = circle
    return circle


WRONG: dict[str, Callable[[str], object]] = {
    "a model that is no text": lambda secret: untyped([secret]),
    "a runtime that is no mapping": lambda secret: untyped("m", runtime=secret),
    "an extra that is no mapping": lambda secret: untyped("m", extra=[secret]),
    "toolsets that are one text": lambda secret: untyped("m", toolsets=secret),
    "toolsets of bytes": lambda secret: untyped("m", toolsets=secret.encode()),
    "toolsets of lists": lambda secret: untyped("m", toolsets=[[secret]]),
    "toolsets that are a mapping": lambda secret: untyped("m", toolsets={secret: True}),
    "toolsets that can be read once": lambda secret: untyped("m", toolsets=iter([secret])),
    "None for toolsets": lambda secret: untyped("m", {"api_key": secret}, None),
    "a prompt that is no text": lambda secret: untyped("m", system_prompt=secret.encode()),
    "a callable": lambda secret: untyped("m", extra={"key": secret, "call": [secret.upper]}),
    "an object": lambda secret: untyped("m", extra={"key": mock.Mock(name=secret, spec=dict)}),
    "an object as a key": lambda secret: untyped("m", extra={"a": {mock.Mock(name=secret): 1}}),
    "an object in a set": lambda secret: untyped("m", extra={"a": {secret, mock.Mock(name=secret)}}),
    "an object under a secret": lambda secret: untyped("m", extra={secret: {secret: object()}}),
    "a dataclass that can change": lambda secret: untyped("m", extra={"a": Mutable(secret)}),
    "a mapping that contains itself": lambda secret: untyped("m", extra=endless(secret)),
    "the same extra twice": lambda secret: signature_of({"extra": {secret: secret}, secret: secret}),
    "no spec": lambda secret: untyped_signature_of(secret),
    "a change": lambda secret: untyped("m", {"key": secret}).runtime.pop(secret),
}


@pytest.mark.parametrize("wrong", WRONG)
@given(secret=secrets)
@settings(deadline=None, max_examples=10)
def test_no_secret_is_in_an_error(wrong: str, secret: str) -> None:
    """I3"""
    with pytest.raises((TypeError, ValueError)) as caught:
        WRONG[wrong](secret)

    shown = "".join(traceback.format_exception(caught.value))
    assert secret not in shown
    assert "spec" in str(caught.value)


# What is refused


class Client:
    def call(self) -> None: ...


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ({"on_step": print}, "extra[on_step]"),
        ({"callbacks": {"step": [1, lambda: None]}}, "extra[callbacks][step][1]"),
        ({"client": Client()}, "extra[client]"),
        ({"call": Client().call}, "extra[call]"),
        ({"type": Client}, "extra[type]"),
        ({"type": Options}, "extra[type]"),
        ({"options": Options(1, [print])}, "extra[options].tags[0]"),  # type: ignore[list-item]
        ({"set": {"a", print}}, "extra[set][…]"),
        ({"steps": iter([1])}, "extra[steps]"),
        ({"a": {print: 1}}, "extra[a][a key]"),
        ({"complex": 1j}, "extra[complex]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_content_of_its_own_is_refused_by_its_place(
    extra: dict[str, Any], place: str
) -> None:
    """I4"""
    for make in (lambda: AgentSpec("m", extra=extra), lambda: signature_of({"model": "m", **extra})):
        with pytest.raises(TypeError) as caught:
            make()
        assert str(caught.value).startswith(f"{place} of the spec is of type ")


def test_the_refusal_says_where_that_belongs_which_changes_from_turn_to_turn() -> None:
    """I4"""
    with pytest.raises(TypeError, match=r"set it on turn\.agent, or in prepare\(agent, turn\)"):
        AgentSpec("m", extra={"on_step": print})


def test_a_dataclass_that_can_change_is_refused() -> None:
    """I1"""
    with pytest.raises(TypeError, match=r"extra\[a\] of the spec is a Mutable.*frozen=True"):
        AgentSpec("m", extra={"a": Mutable("x")})


def test_a_single_text_is_no_list_of_toolsets() -> None:
    """I2"""
    with pytest.raises(TypeError, match=r"toolsets of the spec is a single str.*give a list of names"):
        AgentSpec("m", toolsets="web")


@pytest.mark.parametrize("model", ["", " \n"])
def test_a_model_has_a_name(model: str) -> None:
    """I2"""
    for make in (lambda: AgentSpec(model), lambda: signature_of({"model": model})):
        with pytest.raises(ValueError, match="model of the spec is empty"):
            make()


@pytest.mark.parametrize("model", [None, 5, b"m"])
def test_a_model_is_a_text(model: Any) -> None:
    """I2"""
    for make in (lambda: AgentSpec(model), lambda: signature_of({"model": model})):
        with pytest.raises(TypeError, match="model of the spec must be a str"):
            make()


def test_a_member_of_a_text_enum_names_a_model_or_a_toolset() -> None:
    """I1"""
    assert AgentSpec(Mode.CHAT, toolsets=[Mode.CHAT]) == AgentSpec("chat", toolsets=["chat"])
    assert type(AgentSpec(Mode.CHAT).model) is str


def test_deep_is_fine_and_endless_is_refused() -> None:
    """I1"""
    deep: list[Any] = []
    for _ in range(DEEPEST - 3):
        deep = [deep]
    assert extra_signature(deep) != extra_signature([deep])

    with pytest.raises(ValueError, match="contains itself"):
        AgentSpec("m", runtime=endless("x"))
