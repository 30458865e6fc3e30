"""greenroom can be imported from wherever a user or a developer imports it.

Everything happens in a copy of the checkout, with environments of its own: the copy may be built in and
have violations planted in it, and the tests say something about what is in the repository rather than
about the environment that they happen to run in.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.house import ROOT, shipped_packages

# One worker, so that the wheel and the environments are made once. They need an index to install from,
# and a build that pip isolates: both may take long on a slow line.
pytestmark = [pytest.mark.xdist_group("packaging"), pytest.mark.timeout(300)]

NOT_COPIED = (".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")

SHOW_WHERE = (
    "import greenroom.actors, greenroom.messages as m; print(greenroom.actors.__file__, m.__file__)"
)


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without what the surrounding test run put in the environment, return its output."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))
    }
    # No bytecode: the copy that the tests look at holds what the repository holds.
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{command} in {cwd} said:\n{done.stdout}"
    return done.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment with nothing in it but what is installed here."""

    python: Path

    @classmethod
    def make(cls, path: Path) -> "Environment":
        """Make an empty one, even without pip: ours can install into it, and in less time."""
        run(sys.executable, "-m", "venv", "--without-pip", path, cwd=path.parent)
        return cls(python=path / ("Scripts" if os.name == "nt" else "bin") / "python")

    def install(self, *what: str | Path) -> None:
        """Install into this environment."""
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python)
        run(*pip, "install", "--quiet", *what, cwd=self.python.parent)

    def imports_from(self, cwd: Path) -> list[Path]:
        """Where `greenroom.actors` and `greenroom.messages` come from, in this current directory."""
        output = run(self.python, "-c", SHOW_WHERE, cwd=cwd)
        return [Path(file).resolve().parent for file in output.split()]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository."""
    copy = tmp_path_factory.mktemp("packaging") / "checkout"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return copy.resolve()


@pytest.fixture(scope="session")
def wheel(checkout: Path) -> Path:
    """The wheel, built from the copy."""
    folder = checkout.parent / "wheel"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, checkout, cwd=checkout.parent)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def with_wheel(wheel: Path) -> Environment:
    """An environment with the wheel and what it requires."""
    environment = Environment.make(wheel.parent.parent / "with-wheel")
    environment.install(wheel)
    return environment


@pytest.fixture(scope="session")
def with_editable(checkout: Path) -> Environment:
    """An environment with the copy installed as editable."""
    environment = Environment.make(checkout.parent / "with-editable")
    environment.install("--editable", checkout)
    return environment


def test_the_wheel_holds_every_module_the_page_and_nothing_else(checkout: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {
        "/".join([*package.split("."), path.name])
        for package, folder in shipped_packages(checkout).items()
        for path in (checkout / folder).glob("*.py")
    }
    page = {f"greenroom/gateway/page/{path.name}" for path in (checkout / "gateway/page").iterdir()}
    assert held == modules | page | {"greenroom/py.typed"}


def test_the_wheel_requires_pykka_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    requirements: list[str] = metadata.get_all("Requires-Dist", [])
    [required] = [line for line in requirements if "extra ==" not in line]
    assert required.startswith("pykka")


def test_the_wheel_imports_outside_the_checkout(with_wheel: Environment, tmp_path: Path) -> None:
    for package in shipped_packages():
        if package != "greenroom.store":  # which needs an extra
            run(with_wheel.python, "-c", f"import {package}", cwd=tmp_path)
    assert all("site-packages" in path.parts for path in with_wheel.imports_from(tmp_path))


def test_an_editable_install_imports_outside_the_checkout(
    with_editable: Environment, checkout: Path, tmp_path: Path
) -> None:
    assert with_editable.imports_from(tmp_path) == [checkout / "actors", checkout / "messages"]


def test_an_editable_install_imports_inside_the_checkout(
    with_editable: Environment, checkout: Path
) -> None:
    assert with_editable.imports_from(checkout) == [checkout / "actors", checkout / "messages"]


def test_an_editable_install_needs_no_links(checkout: Path, tmp_path: Path) -> None:
    """A checkout may have none: git makes them on Windows only when asked to."""
    unlinked = tmp_path / "unlinked"
    shutil.copytree(checkout, unlinked, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for path in (unlinked / "greenroom").iterdir():
        if path.is_symlink():
            path.unlink()
    environment = Environment.make(tmp_path / "with-unlinked")
    environment.install("--editable", unlinked)
    for cwd in (unlinked, tmp_path):
        assert environment.imports_from(cwd) == [unlinked / "actors", unlinked / "messages"]


def test_the_folder_greenroom_shadows_an_installed_package_as_a_whole(
    with_wheel: Environment, checkout: Path
) -> None:
    """The first trap: the folder in the current directory wins, and its parts lie beside it."""
    assert with_wheel.imports_from(checkout) == [checkout / "actors", checkout / "messages"]


PYTEST_COMMANDS = [
    pytest.param([str(Path(sys.executable).with_name("pytest"))], id="pytest"),
    pytest.param([sys.executable, "-m", "pytest"], id="python -m pytest"),
]


@pytest.mark.parametrize("command", PYTEST_COMMANDS)
def test_tests_in_a_checkout_test_that_checkout(command: list[str], checkout: Path) -> None:
    probe = checkout / "tests" / "test_probe.py"
    probe.write_text(
        f"import greenroom.actors as a\n\ndef test_it():\n    assert {str(checkout)!r} in a.__file__\n"
    )
    assert "1 passed" in run(*command, "-p", "no:cacheprovider", probe, cwd=checkout)


@pytest.mark.parametrize("command", PYTEST_COMMANDS)
def test_a_test_that_imports_a_second_copy_fails(command: list[str], checkout: Path) -> None:
    """The second trap: `import messages` works in the checkout, and loads every class again."""
    probe = checkout / "tests" / "test_probe.py"
    probe.write_text("import messages\n\ndef test_it():\n    assert messages.__all__\n")
    with pytest.raises(AssertionError, match=r"imported by a bare name.*\['messages'\]"):
        run(*command, "-p", "no:cacheprovider", probe, cwd=checkout)
