"""How much memory is in use and how much may be, on made-up machines and on the real one."""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from greenroom.supervisor import _meter
from greenroom.supervisor._meter import MemoryUnknown, budget_bytes, give_back, memory_limit, resident
from tests.house import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Machine = Callable[..., Path]

MB = 2**20
GB = 2**30
PHYSICAL = 64 * GB
NO_LIMIT = "9223372036854771712"
"""What version 1 says on a machine with pages of 4 KB."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

CGROUP2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate"
MEMORY = "35 31 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:14 - cgroup cgroup rw,memory"
OTHERS = """\
22 1 0:20 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
31 23 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:10 - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct
36 31 0:33 / /sys/fs/cgroup/systemd rw,nosuid shared:15 - cgroup cgroup rw,xattr,name=systemd"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Make a root with what /proc says, and files with limits below /sys/fs/cgroup."""

    def make(
        cgroup: str, *mounts: str, limits: Mapping[str, object], physical: int | None = PHYSICAL
    ) -> Path:
        write(tmp_path, "proc/self/cgroup", f"{cgroup}\n")
        write(tmp_path, "proc/self/mountinfo", "\n".join([OTHERS, *mounts, ""]))
        if physical is not None:
            write(tmp_path, "proc/meminfo", f"MemTotal:       {physical // 1024} kB\nMemFree: 1 kB\n")
        for path, limit in limits.items():
            write(tmp_path, f"sys/fs/cgroup/{path}", f"{limit}\n")
        return tmp_path

    return make


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))


# Version 2


def test_the_limit_of_the_cgroup_counts(machine: Machine) -> None:
    """C10"""
    root = machine("0::/gateway", CGROUP2, limits={"gateway/memory.max": 2 * GB})

    assert memory_limit(root) == 2 * GB


def test_a_smaller_limit_of_one_above_counts(machine: Machine) -> None:
    """C10"""
    root = machine(
        "0::/user.slice/bots.slice/gateway",
        CGROUP2,
        limits={
            "user.slice/memory.max": 8 * GB,
            "user.slice/bots.slice/memory.max": 1 * GB,
            "user.slice/bots.slice/gateway/memory.max": 2 * GB,
            "user.slice/bots.slice/gateway/below/memory.max": 1,
            "user.slice/bots.slice/beside/memory.max": 1,
            "beside/memory.max": 1,
        },
    )

    assert memory_limit(root) == 1 * GB


def test_a_cgroup_without_a_limit_takes_that_of_one_above(machine: Machine) -> None:
    """C10"""
    limits = {"a/memory.max": 3 * GB, "a/b/memory.max": "max"}

    assert memory_limit(machine("0::/a/b/gone (deleted)", CGROUP2, limits=limits)) == 3 * GB


@pytest.mark.parametrize("unlimited", ["max", NO_LIMIT, str(2**63 - 2**16), str(2**63 - 1), 0])
def test_without_a_limit_it_is_the_memory_of_the_machine(machine: Machine, unlimited: object) -> None:
    """C10"""
    assert memory_limit(machine("0::/a", CGROUP2, limits={"a/memory.max": unlimited})) == PHYSICAL


def test_a_limit_beyond_the_memory_of_the_machine_is_none(machine: Machine) -> None:
    """C10"""
    root = machine("0::/a", CGROUP2, limits={"a/memory.max": PHYSICAL + 1})

    assert memory_limit(root) == PHYSICAL


def test_a_container_with_a_namespace_of_its_own_sees_itself_at_the_top(
    machine: Machine,
) -> None:
    """C10"""
    assert memory_limit(machine("0::/", CGROUP2, limits={"memory.max": 512 * MB})) == 512 * MB


@pytest.mark.parametrize("outside", ["/..", "/../..", "/../../other", "/../c2/x"])
def test_a_process_outside_of_its_namespace_goes_by_what_it_sees(machine: Machine, outside: str) -> None:
    """C10: and never leaves the mount on the way."""
    root = machine(
        f"0::{outside}",
        CGROUP2,
        limits={
            "memory.max": 512 * MB,
            "../memory.max": 1,
            "../../memory.max": 1,
            "../c2/memory.max": 1,
        },
    )

    assert memory_limit(root) == 512 * MB


def test_a_mount_from_outside_of_the_namespace_begins_above_it(machine: Machine) -> None:
    """C10"""
    above = CGROUP2.replace(" / /sys", " /../.. /sys")
    limits = {"memory.max": 4 * GB, "c2/memory.max": 1 * GB}

    assert memory_limit(machine("0::/", above, limits=limits)) == 4 * GB
    assert memory_limit(machine("0::/../..", above, limits=limits)) == 4 * GB
    assert memory_limit(machine("0::/../../c2", above, limits=limits)) == 1 * GB


def test_names_with_blanks_and_any_bytes_are_found(machine: Machine) -> None:
    """C10"""
    mount = r"30 23 0:26 / /sys/fs/cgroup/my\040mount rw - cgroup2 cgroup2 rw"
    name = "a b\udcff"
    root = machine(f"0::/{name}", mount, limits={f"my mount/{name}/memory.max": GB})

    assert memory_limit(root) == GB


def test_of_several_mounts_those_count_that_show_the_cgroup(machine: Machine) -> None:
    """C10"""
    beside = "40 23 0:26 /c2 /sys/fs/cgroup/beside rw - cgroup2 cgroup2 rw"
    within = "41 23 0:26 /c1 /sys/fs/cgroup/within rw - cgroup2 cgroup2 rw"
    limits = {"beside/memory.max": 1, "within/memory.max": 2 * GB, "within/x/memory.max": 3 * GB}

    assert memory_limit(machine("0::/c1/x", beside, within, limits=limits)) == 2 * GB


# Version 1, and both


def test_version_1_goes_by_the_memory_controller(machine: Machine) -> None:
    """C10"""
    root = machine(
        "9:name=systemd:/s\n4:cpu,cpuacct:/c\n3:memory:/a/b\n1:cpuset:/",
        MEMORY,
        limits={
            "memory/memory.limit_in_bytes": NO_LIMIT,
            "memory/a/memory.limit_in_bytes": 1 * GB,
            "memory/a/b/memory.limit_in_bytes": 2 * GB,
            "memory/c/memory.limit_in_bytes": 1,
            "memory/a/b/memory.max": 1,
            "cpu,cpuacct/c/memory.limit_in_bytes": 1,
            "systemd/s/memory.limit_in_bytes": 1,
        },
    )

    assert memory_limit(root) == 1 * GB


def test_the_memory_controller_may_share_its_hierarchy(machine: Machine) -> None:
    """C10"""
    mount = "35 31 0:32 / /sys/fs/cgroup/cpu,memory rw - cgroup cgroup rw,cpu,memory"
    limits = {"cpu,memory/a/memory.limit_in_bytes": GB}

    assert memory_limit(machine("2:cpu,memory:/a", mount, limits=limits)) == GB


def test_version_1_without_a_limit_has_the_memory_of_the_machine(machine: Machine) -> None:
    """C10"""
    limits = {
        "memory/memory.limit_in_bytes": NO_LIMIT,
        "memory/a/memory.limit_in_bytes": 2**63 - 2**16,
    }

    assert memory_limit(machine("3:memory:/a", MEMORY, limits=limits, physical=None)) is None
    assert memory_limit(machine("3:memory:/a", MEMORY, limits=limits)) == PHYSICAL


def test_a_container_sees_its_own_cgroup_at_the_mount(machine: Machine) -> None:
    """C10: version 1 without a namespace: /proc tells the path on the host."""
    mount = MEMORY.replace(" / /sys", " /docker/c1 /sys")
    limits = {"memory/memory.limit_in_bytes": 1 * GB, "memory/x/memory.limit_in_bytes": 512 * MB}

    assert memory_limit(machine("3:memory:/docker/c1", mount, limits=limits)) == 1 * GB
    assert memory_limit(machine("3:memory:/docker/c1/x", mount, limits=limits)) == 512 * MB
    assert memory_limit(machine("3:memory:/docker/c12", mount, limits=limits)) == 1 * GB


@pytest.mark.parametrize("in_version", [1, 2])
def test_with_both_versions_the_one_with_the_memory_controller_counts(
    machine: Machine, in_version: int
) -> None:
    """C10"""
    unified = CGROUP2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    if in_version == 1:
        cgroup, mounts = "4:memory:/a/b\n0::/c", [MEMORY, unified]
        limits = {"memory/a/memory.limit_in_bytes": GB, "unified/c/cgroup.procs": 1}
    else:
        cgroup, mounts = "1:name=systemd:/c\n0::/a/b", [unified]
        limits = {"unified/a/memory.max": GB, "systemd/c/memory.max": 1}

    assert memory_limit(machine(cgroup, *mounts, limits=limits)) == GB


# Garbage


@pytest.mark.parametrize(
    "garbage", ["", "many", "-1", "1e9", "12 34", "1_000", "٣", "9" * 5000, "\udcff"]
)
def test_a_limit_that_cannot_be_read_is_none(machine: Machine, garbage: str) -> None:
    """C10"""
    root = machine("0::/a", CGROUP2, limits={"a/memory.max": garbage, "memory.max": 3 * GB})

    assert memory_limit(root) == 3 * GB


def test_a_limit_that_is_a_folder_is_none(machine: Machine) -> None:
    """C10"""
    root = machine("0::/a", CGROUP2, limits={"a/memory.max/x": 1})

    assert memory_limit(root) == PHYSICAL


def test_of_a_machine_that_tells_nothing_nothing_is_known(tmp_path: Path) -> None:
    """C10"""
    assert memory_limit(tmp_path) is None


@given(cgroup=st.text(max_size=60), mountinfo=st.text(max_size=60), meminfo=st.text(max_size=30))
@settings(deadline=None)
def test_no_garbage_in_proc_raises(
    tmp_path_factory: pytest.TempPathFactory, cgroup: str, mountinfo: str, meminfo: str
) -> None:
    """C10"""
    root = tmp_path_factory.mktemp("machine")
    for name, text in {"self/cgroup": cgroup, "self/mountinfo": mountinfo, "meminfo": meminfo}.items():
        file = root / "proc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "replace"))

    assert memory_limit(root) is None


@pytest.mark.parametrize(
    ("cgroup", "mount"),
    [
        ("0::/a\0b", CGROUP2),
        ("0::" + "/b" * 5000, CGROUP2),
        ("0::", CGROUP2),
        ("0:", CGROUP2),
        ("0::/a", CGROUP2.partition(" - ")[0]),
        ("0::/a", "30 23 - cgroup2 cgroup2 rw"),
        ("0::/a", "30 23 0:26 / /sys/fs\\000 rw - cgroup2 cgroup2 rw"),
        ("3:memory:/a", MEMORY.replace("rw,memory", "rw,memory_recursiveprot")),
    ],
)
def test_lines_that_make_no_sense_limit_nothing(machine: Machine, cgroup: str, mount: str) -> None:
    """C10"""
    limits = {"a/memory.max": 1, "memory/a/memory.limit_in_bytes": 1}

    assert memory_limit(machine(cgroup, mount, limits=limits)) == PHYSICAL


# In use


def test_what_is_resident_is_counted_in_pages(tmp_path: Path) -> None:
    """C10"""
    write(tmp_path, "proc/self/statm", "5000 1234 800 1 0 900 0\n")

    assert resident(tmp_path) == 1234 * mmap.PAGESIZE


def test_without_proc_psutil_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C10"""
    told = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=4321))
    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(Process=lambda: told))

    assert resident(tmp_path) == 4321


@pytest.mark.parametrize("statm", [None, "", "garbage", "1 2", "a b c d e f g"])
def test_without_proc_and_psutil_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statm: str | None
) -> None:
    """C10"""
    monkeypatch.setitem(sys.modules, "psutil", None)
    if statm is not None:
        write(tmp_path, "proc/self/statm", statm)

    with pytest.raises(MemoryUnknown, match="install psutil"):
        resident(tmp_path)


def test_memory_that_is_touched_counts_as_in_use() -> None:
    """C10: on the real machine."""
    before = resident()
    with mmap.mmap(-1, 50 * MB) as block:  # from the system, whatever Python's allocator keeps
        for page in range(0, 50 * MB, mmap.PAGESIZE):
            block[page] = 1

        assert resident() - before > 45 * MB

    assert resident() - before < 25 * MB


def test_the_real_machine_has_a_limit_that_this_process_is_below() -> None:
    """C10"""
    limit = memory_limit()

    assert limit is not None
    assert resident() < limit


def descriptors() -> list[str]:
    """Those of the file that tells. Others come and go: what an earlier test has left is collected."""
    found: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself is closed by now
            if os.readlink(f"/proc/self/fd/{number}").endswith("/statm"):
                found.append(number)
    return sorted(found)


@on_linux
def test_the_file_is_opened_once() -> None:
    """C10"""
    resident()
    before = descriptors()

    for _ in range(100):
        resident()

    assert descriptors() == before


@on_linux
def test_threads_that_ask_first_together_share_one_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """C10"""
    opened: dict[int, int] = {}
    monkeypatch.setattr(_meter, "_opened", opened)
    before = len(descriptors())
    start = threading.Barrier(8)
    answers: list[int] = []

    def ask() -> None:
        start.wait(10.0)
        answers.append(resident())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10.0)

    assert len(answers) == 8
    assert len(descriptors()) == before + 1
    os.close(opened[os.getpid()])


@on_linux
def test_who_opens_the_file_second_closes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """C10: the same, with the order forced: another one comes first while this one opens it."""
    opened: dict[int, int] = {}
    monkeypatch.setattr(_meter, "_opened", opened)
    really_open = os.open
    calls: list[str] = []

    def open_late(path: str, flags: int) -> int:
        calls.append(path)
        if len(calls) == 1:
            resident()
        return really_open(path, flags)

    before = len(descriptors())
    monkeypatch.setattr(os, "open", open_late)
    resident()

    assert calls == ["/proc/self/statm"] * 2
    assert len(descriptors()) == before + 1
    os.close(opened[os.getpid()])


@on_linux
def test_a_descriptor_that_somebody_closed_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C10"""
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    opened = {os.getpid(): closed}
    monkeypatch.setattr(_meter, "_opened", opened)

    assert resident() > MB
    assert resident() > MB

    os.close(opened[os.getpid()])


@on_linux
def test_a_descriptor_that_means_another_file_by_now_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C10"""
    write(tmp_path, "other", "1 2 3")
    with (tmp_path / "other").open("rb") as other:
        opened = {os.getpid(): other.fileno()}
        monkeypatch.setattr(_meter, "_opened", opened)

        assert resident() > MB

        assert other.read() == b"1 2 3"
    os.close(opened[os.getpid()])


FORK = """
import os
from greenroom.supervisor._meter import resident

parent = resident()
child = os.fork()
if child == 0:
    block = bytearray(b"x" * (60 * 2**20))
    os._exit(0 if resident() > parent + 40 * 2**20 else 3)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, "the child was told what its parent holds"
assert resident() < parent + 40 * 2**20, "the parent was told what its child held"
"""


@pytest.mark.long
@on_linux
def test_after_a_fork_each_process_is_told_what_is_its_own() -> None:
    """C10"""
    ended = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )

    assert ended.returncode == 0, ended.stderr


# Budgets


@pytest.mark.parametrize(
    ("budget", "limit", "bytes_"),
    [
        (1, None, 1),
        (3 * GB, 2 * GB, 3 * GB),
        (0.5, 3, 1),
        (0.75, 4 * GB, 3 * GB),
        (1.0, 4 * GB, 4 * GB),
        (1e-300, 4 * GB, 1),
    ],
)
def test_an_int_is_bytes_and_a_float_is_a_share(budget: float, limit: int | None, bytes_: int) -> None:
    """C10"""
    assert budget_bytes(budget, limit) == bytes_


@pytest.mark.parametrize(
    "budget", [0, -1, 0.0, -0.5, 1.5, 5e8, float("nan"), float("inf"), True, False, "1 GB", None]
)
def test_a_budget_that_makes_no_sense_is_refused(budget: Any) -> None:
    """C10"""
    with pytest.raises(ValueError, match=r"an int, more than 0, in bytes, or a float") as caught:
        budget_bytes(budget, GB)

    assert repr(budget) in str(caught.value)


def test_a_share_of_an_unknown_limit_says_what_to_do() -> None:
    """C10"""
    with pytest.raises(MemoryUnknown, match="give bytes as an int"):
        budget_bytes(0.5, None)


# Giving back


class Node:
    itself: Node


def test_giving_back_collects_what_only_refers_to_itself() -> None:
    """C10"""
    gc.disable()
    try:
        node = Node()
        node.itself = node
        dead = weakref.ref(node)
        del node
        assert dead() is not None

        give_back()
    finally:
        gc.enable()

    assert dead() is None


@pytest.mark.skipif(_meter._malloc_trim() is None, reason="needs glibc")
@pytest.mark.skipif(
    bool(_meter.BLIND), reason="needs a GIL: without one, Python's memory is not from glibc"
)
def test_giving_back_returns_free_memory_to_the_system() -> None:
    """C10"""
    before = resident()
    # Too large for Python's own pools, too small for a mapping each. The last one stays: glibc gives
    # back the end of its heap by itself, but what lies below something in use only when asked to.
    blocks = [bytearray(b"x" * 64 * 1024) for _ in range(1600)]
    last = blocks.pop()
    blocks.clear()
    held = resident()

    give_back()

    assert resident() < held - 50 * MB
    assert resident() < before + 30 * MB
    assert len(last) == 64 * 1024


@pytest.mark.parametrize(
    "missing", [{"ctypes": None}, {"ctypes": SimpleNamespace(CDLL=lambda _: object())}]
)
def test_where_there_is_no_glibc_giving_back_only_collects(
    monkeypatch: pytest.MonkeyPatch, missing: dict[str, Any]
) -> None:
    """C10"""
    for name, module in missing.items():
        monkeypatch.setitem(sys.modules, name, module)
    _meter._malloc_trim.cache_clear()
    try:
        give_back()
        assert _meter._malloc_trim() is None
    finally:
        _meter._malloc_trim.cache_clear()
