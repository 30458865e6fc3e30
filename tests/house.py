"""The rules of the house, as functions from source text to what is wrong with it.

They read the syntax tree and import nothing, so that a rule can be tried on a planted violation
(`test_house.py` does) as well as on the files of the checkout.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT: dict[str, frozenset[str]] = {
    "messages": frozenset(),
    "actors": frozenset({"messages"}),
    "supervisor": frozenset({"actors", "messages"}),
    "greenroom": frozenset({"actors", "messages", "store", "supervisor"}),
    "store": frozenset(),
    "gateway": frozenset({"greenroom"}),
    "integrations": frozenset({"greenroom"}),
    "stress": frozenset({"greenroom", "supervisor"}),
}
"""For each folder of code, the others that it may import. Its own parts it may always import."""

ELSEWHERE = {"stress": "benchmarks/stress"}
"""Where a folder of code is, if that is not the top level: what ships of a folder that does not."""

FOLDERS = frozenset(MAY_IMPORT)
"""The folders of code. `greenroom` is the package itself, `X` is installed as `greenroom.X`."""

BARE_NAMES = frozenset(
    ELSEWHERE.get(folder, folder).replace("/", ".") for folder in FOLDERS - {"greenroom"}
)
"""By these the folders can be imported in the checkout, and must not be."""

NOT_SHIPPED = frozenset({"tests", "benchmarks", "examples"})
"""Folders of Python that are no part of the package."""

LOCKS = frozenset({"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "allocate_lock"})
"""Nobody calls anything else by these names, so they are refused whatever they hang on."""

SIGNALS = frozenset({"Event", "Barrier"})
"""Ordinary words: refused only when they come out of a module of `LOCKSMITHS`."""

LOCKSMITHS = frozenset({"threading", "_thread", "asyncio", "asyncio.locks", "multiprocessing"})

DOCUMENTED = frozenset(
    {
        "_thread",
        "_thread.start_new_thread",
        "os._exit",
        "sys._current_exceptions",
        "sys._current_frames",
        "sys._getframe",
        "sys._is_gil_enabled",
    }
)
"""Public in spite of their underscore: the documentation of Python has them."""

Imported = tuple[int, str, str]
"""The line of an import, its dotted name in full, and the name that it binds."""


def imports(tree: ast.Module) -> Iterator[Imported]:
    """Every absolute import in the tree, inside functions and type-checking blocks too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}", alias.asname or alias.name


def folder_of(dotted: str) -> str | None:
    """The folder of ours that a dotted name comes from, or None if it is somebody else's."""
    first, _, rest = dotted.partition(".")
    if first != "greenroom":
        return None
    part = rest.partition(".")[0]
    return part if part in FOLDERS else "greenroom"


def wrong_directions(source: str, folder: str) -> list[str]:
    """Imports of a folder that `folder` must not import."""
    allowed = MAY_IMPORT[folder] | {folder}
    return [
        f"line {line}: {folder}/ must not import {dotted}"
        for line, dotted, _ in imports(ast.parse(source))
        if folder_of(dotted) not in allowed | {None}
    ]


def imports_that_are_not_absolute(source: str) -> list[str]:
    """Relative imports, and bare imports that load a second copy of one of our folders."""
    tree = ast.parse(source)
    relative = [
        f"line {node.lineno}: a relative import"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    bare = [
        f"line {line}: {dotted} loads a second copy, import it from greenroom"
        for line, dotted, _ in imports(tree)
        if f"{dotted}.".startswith(tuple(f"{name}." for name in BARE_NAMES))
    ]
    return relative + bare


def locks(source: str) -> list[str]:
    """Uses of a lock, or of anything else that makes a thread wait for another."""
    tree = ast.parse(source)
    smiths: set[str] = set()
    found: list[tuple[int, str]] = []
    for line, dotted, bound in imports(tree):
        module, _, name = dotted.rpartition(".")
        if dotted in LOCKSMITHS:
            smiths.add(bound)
        if module in LOCKSMITHS and name in LOCKS | SIGNALS | {"*"}:
            found.append((line, dotted))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        from_smith = isinstance(node.value, ast.Name) and node.value.id in smiths
        if node.attr in LOCKS or (node.attr in SIGNALS and from_smith):
            found.append((node.lineno, node.attr))
    return [
        f"line {line}: {what}: what needs one belongs into a mailbox" for line, what in sorted(found)
    ]


def private_names(source: str) -> list[str]:
    """Private names that are imported from other people's modules, or read there."""
    tree = ast.parse(source)
    bound = {name: dotted for _, dotted, name in imports(tree) if folder_of(dotted) is None}
    found = {(line, dotted) for line, dotted, name in imports(tree) if name in bound}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = _dotted(node).partition(".")
            if first in bound:
                found.add((node.lineno, f"{bound[first]}.{rest}"))
    return [
        f"line {line}: {dotted} is private"
        for line, dotted in sorted(found)
        if dotted not in DOCUMENTED and any(map(_is_private, dotted.split(".")))
    ]


def _dotted(node: ast.expr) -> str:
    """A name and its attributes, as `asyncio.events.get_event_loop`; of anything else, only these."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def untidy_init(source: str) -> list[str]:
    """What an `__init__.py` holds beside a docstring, imports by name and a sorted `__all__` of them."""
    tree = ast.parse(source)
    wrong = [] if ast.get_docstring(tree) else ["no docstring"]
    imported: set[str] = set()
    exported: list[str] | None = None
    for node in tree.body[1:] if ast.get_docstring(tree) else tree.body:
        names = _all_of(node)
        if names is not None:
            exported = names
        elif isinstance(node, ast.ImportFrom) and node.names[0].name != "*":
            imported |= {alias.asname or alias.name for alias in node.names}
        else:
            wrong.append(f"line {node.lineno}: only imports by name and __all__ belong here")
    if exported is None:
        return [*wrong, "no __all__ that is a plain list of strings"]
    if exported != sorted(set(exported)):
        wrong.append("__all__ is not sorted, or names something twice")
    if set(exported) != imported:
        wrong.append(f"in __all__ or imported, but not both: {sorted(set(exported) ^ imported)}")
    return wrong


def _all_of(node: ast.stmt) -> list[str] | None:
    """The names that a statement gives to `__all__`, or None if it does something else."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names))
            | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List(elts=names))
        ):
            texts = [name.value for name in names if isinstance(name, ast.Constant)]
            strings = [text for text in texts if isinstance(text, str)]
            return strings if len(strings) == len(names) else None
        case _:
            return None


def shipped_folders(root: Path = ROOT) -> dict[str, str]:
    """The folders of code that are there, `greenroom` among them, and where each is."""
    names = {init.parent.name for init in root.glob("*/__init__.py")} - NOT_SHIPPED
    return dict(sorted([*zip(names, names, strict=True), *ELSEWHERE.items()]))


def shipped_packages(root: Path = ROOT) -> dict[str, str]:
    """Every package that is there, by the name that it is installed as, with its folder."""
    packages: dict[str, str] = {}
    for folder, place in shipped_folders(root).items():
        for init in (root / place).rglob("__init__.py"):  # rglob does not follow links
            inside = init.parent.relative_to(root / place).parts
            outside = ("greenroom",) if folder == "greenroom" else ("greenroom", folder)
            packages[".".join(outside + inside)] = init.parent.relative_to(root).as_posix()
    return packages


def imports_of_sessions(source: str) -> list[str]:
    """Imports by the actor runtime of what is built on it: it may import itself, and messages."""
    return [
        f"line {line}: the runtime must not import {name}"
        for line, name, _ in imports(ast.parse(source))
        if name.startswith("greenroom.")
        and not name.startswith(("greenroom.actors.runtime", "greenroom.messages"))
    ]


def sources(root: Path, *folders: str) -> list[Path]:
    """The Python files of these folders, in order."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def broken(paths: list[Path], rule: Callable[[str], list[str]], root: Path = ROOT) -> list[str]:
    """What a rule finds in these files, each with its file."""
    return [
        f"{path.relative_to(root)}, {what}" for path in paths for what in rule(path.read_text("utf-8"))
    ]
