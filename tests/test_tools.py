"""Tool definitions: memoised, bounded, and everybody's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from greenroom._tools import ToolDefinitionCache


class Loader:
    """Loads definitions, and notes what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []
        self.fails: Exception | None = None

    def __call__(self, toolsets: tuple[str, ...] | None, **config: Any) -> list[dict[str, Any]]:
        self.calls.append((toolsets, config))
        if self.fails is not None:
            raise self.fails
        names = ("everything",) if toolsets is None else toolsets
        return [{"name": name, "parameters": {"required": ["path"]}} for name in names]


@pytest.fixture
def load() -> Loader:
    return Loader()


@pytest.fixture
def cache(load: Loader) -> ToolDefinitionCache:
    return ToolDefinitionCache(load)


# Memoising


def test_the_same_question_is_loaded_once(load: Loader, cache: ToolDefinitionCache) -> None:
    """X1"""
    assert cache.get(["web"], quiet=True) == cache.get(["web"], quiet=True)
    assert load.calls == [(("web",), {"quiet": True})]
    assert len(cache) == 1


def test_definitions_may_be_yielded() -> None:
    """X1"""

    def load(toolsets: tuple[str, ...] | None, **_: Any) -> Iterator[dict[str, str]]:
        for name in toolsets or ():
            yield {"name": name}

    cache = ToolDefinitionCache(load)
    for _ in range(2):
        assert cache.get(["web"]) == [{"name": "web"}]


def test_the_order_of_toolsets_does_not_matter(load: Loader, cache: ToolDefinitionCache) -> None:
    """X1"""
    first = cache.get(["web", "files"])
    for same in (["files", "web"], ("web", "files", "web"), {"files", "web"}, iter(["files", "web"])):
        assert cache.get(same) == first
    assert load.calls == [(("files", "web"), {})]


def test_the_order_of_a_configuration_does_not_matter(load: Loader, cache: ToolDefinitionCache) -> None:
    """X1"""
    cache.get(None, a={"x": 1, "y": [2]}, b={3, 4})
    cache.get(None, b={4, 3}, a={"y": [2], "x": 1})
    assert len(load.calls) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"toolsets": ["web"]}, {"toolsets": ["files"]}),
        ({"toolsets": None}, {"toolsets": []}),
        ({"quiet": True}, {"quiet": False}),
        ({"quiet": True}, {"quiet": 1}),
        ({"level": 1}, {"level": 1.0}),
        ({"level": 1}, {"level": "1"}),
        ({"quiet": None}, {}),
        ({"order": ["a", "b"]}, {"order": ["b", "a"]}),
        ({"order": ["a"]}, {"order": ("a",)}),
        ({"nested": {"a": {"b": 1}}}, {"nested": {"a": {"b": 2}}}),
        ({"nested": {}}, {"nested": []}),
    ],
)
def test_another_toolset_or_configuration_is_another_entry(
    load: Loader, cache: ToolDefinitionCache, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """X1"""
    for question in (one, other, one, other):
        cache.get(**question)
    assert len(load.calls) == 2


def test_a_configuration_that_is_changed_later_changes_no_entry(
    load: Loader, cache: ToolDefinitionCache
) -> None:
    """X1"""
    disabled = ["shell"]
    cache.get(disabled=disabled)
    disabled.append("web")
    cache.get(disabled=disabled)
    cache.get(disabled=["shell"])
    assert len(load.calls) == 2


def test_one_nan_is_like_another(load: Loader, cache: ToolDefinitionCache) -> None:
    """X1"""
    cache.get(weight=float("nan"))
    cache.get(weight=float("nan"))
    assert len(load.calls) == 1


def test_a_load_that_raises_is_raised_and_not_remembered(
    load: Loader, cache: ToolDefinitionCache
) -> None:
    load.fails = LookupError("no such toolset")
    with pytest.raises(LookupError, match="no such toolset"):
        cache.get(["web"])
    assert len(cache) == 0

    load.fails = None
    assert cache.get(["web"])[0]["name"] == "web"
    assert len(cache) == 1


# Bounds


def test_by_default_eight_entries_are_kept_and_one_more_takes_only_the_oldest_out(
    load: Loader, cache: ToolDefinitionCache
) -> None:
    """X1"""
    for number in range(9):
        cache.get([f"set {number}"])
    assert len(cache) == 8

    load.calls.clear()
    for number in range(1, 9):
        cache.get([f"set {number}"])
    assert load.calls == []
    cache.get(["set 0"])
    assert load.calls == [(("set 0",), {})]


def test_what_was_loaded_first_leaves_first_however_often_it_is_used(load: Loader) -> None:
    """X1"""
    cache = ToolDefinitionCache(load, max_entries=2)
    for name in ("a", "b", "a", "c"):
        cache.get([name])
    load.calls.clear()
    cache.get(["b"])
    cache.get(["c"])
    assert load.calls == []
    cache.get(["a"])
    assert len(load.calls) == 1


def test_a_cache_of_one_entry_works(load: Loader) -> None:
    """X1"""
    cache = ToolDefinitionCache(load, max_entries=1)
    for name in ("a", "a", "b", "b", "a"):
        assert cache.get([name])[0]["name"] == name
        assert len(cache) == 1
    assert len(load.calls) == 3


# Everybody's own


def test_what_a_caller_does_to_its_list_reaches_nobody(cache: ToolDefinitionCache) -> None:
    """X2"""
    for _ in range(3):  # the first caller, who had it loaded, is one like any other
        mine = cache.get(["web"])
        assert mine == [{"name": "web", "parameters": {"required": ["path"]}}]
        mine[0]["parameters"]["required"].append("spoilt")
        mine[0]["name"] = "spoilt"
        mine.append("spoilt")


def test_what_the_loader_keeps_and_changes_reaches_nobody() -> None:
    """X2"""
    of_the_loader = [{"name": "web", "tags": ["net"]}]
    cache = ToolDefinitionCache(lambda _: of_the_loader)
    first = cache.get()
    of_the_loader[0]["name"] = "spoilt"
    first[0]["tags"].append("spoilt")
    assert cache.get() == [{"name": "web", "tags": ["net"]}]
    assert of_the_loader[0]["tags"] == ["net"]


def test_any_iterable_of_definitions_will_do() -> None:
    """X2"""
    cache = ToolDefinitionCache(lambda toolsets: ({"name": name} for name in toolsets))
    for _ in range(2):
        assert cache.get(["b", "a"]) == [{"name": "a"}, {"name": "b"}]


# Bypassing


def test_a_call_that_asks_for_it_neither_reads_nor_changes_the_cache(
    load: Loader, cache: ToolDefinitionCache
) -> None:
    """X3"""
    cache.get(["web"], fresh=True)
    assert len(cache) == 0
    cache.get(["web"])
    cache.get(["web"], fresh=True)
    assert load.calls == [(("web",), {})] * 3
    cache.get(["web"])
    assert len(load.calls) == 3


def test_a_list_that_bypassed_the_cache_is_the_callers_own() -> None:
    """X2, X3"""
    of_the_loader = [{"name": "web"}]
    cache = ToolDefinitionCache(lambda _: of_the_loader)
    cache.get(fresh=True)[0]["name"] = "spoilt"
    assert of_the_loader == [{"name": "web"}]


def test_a_configuration_that_cannot_be_compared_can_still_bypass_the_cache() -> None:
    """X3"""

    class Odd:
        __hash__ = None  # type: ignore[assignment]  # that is how Python says so

    cache = ToolDefinitionCache(lambda _, **__: [{"name": "web"}])
    with pytest.raises(TypeError, match=r"config\['filters'\] is a Odd.*fresh=True"):
        cache.get(filters=Odd())
    assert cache.get(filters=Odd(), fresh=True) == [{"name": "web"}]


# Arguments


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None, "8"])
def test_a_bound_that_is_none_is_refused(load: Loader, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"1 or more, not {wrong!r}"):
        ToolDefinitionCache(load, max_entries=wrong)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a function of"):
        ToolDefinitionCache([])  # type: ignore[arg-type]  # that is the mistake


@pytest.mark.parametrize("wrong", ["web", b"web", {"web": 1}, 7])
def test_toolsets_that_are_no_list_of_names_are_refused(cache: ToolDefinitionCache, wrong: Any) -> None:
    with pytest.raises(TypeError, match="toolsets must be a list of names"):
        cache.get(wrong)


def test_a_toolset_that_is_no_name_is_refused(cache: ToolDefinitionCache) -> None:
    with pytest.raises(TypeError, match="must be a name, not 7"):
        cache.get(["web", 7])  # type: ignore[list-item]  # that is the mistake


@pytest.mark.parametrize("wrong", [None, "definitions", {"name": "web"}, 7])
def test_a_loader_that_returns_no_list_is_told_so(wrong: Any) -> None:
    cache = ToolDefinitionCache(lambda _: wrong)
    with pytest.raises(TypeError, match=f"a list of definitions, not {type(wrong).__name__}"):
        cache.get()
    assert len(cache) == 0


def test_its_repr_tells_how_full_it_is(cache: ToolDefinitionCache) -> None:
    cache.get(api_key="secret")
    assert repr(cache) == "<ToolDefinitionCache with 1 of at most 8 entries>"


# Threads


def test_two_threads_that_miss_at_once_both_get_their_own_and_one_entry_stays() -> None:
    """X1, X2"""
    both_load = threading.Barrier(2, timeout=10.0)
    calls: list[int] = []

    def load(_: Any) -> list[dict[str, Any]]:
        both_load.wait()
        calls.append(1)
        return [{"name": "web", "tags": []}]

    cache = ToolDefinitionCache(load)
    got: list[list[Any]] = []
    threads = [threading.Thread(target=lambda: got.append(cache.get())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)

    got[0][0]["tags"].append("spoilt")
    assert got[1] == cache.get() == [{"name": "web", "tags": []}]
    assert len(calls) == 2
    assert len(cache) == 1


def test_under_many_threads_answers_are_right_and_the_bound_holds() -> None:
    """X1, X2"""
    start = threading.Barrier(8, timeout=10.0)
    cache = ToolDefinitionCache(
        lambda toolsets: [{"name": n, "tags": []} for n in toolsets], max_entries=4
    )
    problems: list[object] = []

    def work(seed: int) -> None:
        start.wait()
        for number in range(300):
            name = f"set {(number * (seed + 1)) % 7}"
            try:
                mine = cache.get([name])
            except Exception as error:  # whatever it is, it must not happen
                problems.append(error)
                return
            if mine != [{"name": name, "tags": []}] or len(cache) > 4:
                problems.append((name, mine, len(cache)))
            mine[0]["tags"].append("spoilt")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert problems == []
    assert 1 <= len(cache) <= 4
