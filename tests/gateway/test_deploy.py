"""What is in `deploy/` fits together, and fits the server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenroom.gateway.config._config import Config
from greenroom.gateway.config._settings import SETTINGS
from greenroom.gateway.server._life import GRACE
from tests.gateway.life_process import PATIENCE, environment
from tests.gateway.life_supervisord import shipped_program
from tests.house import ROOT

UNIT = ROOT / "deploy/systemd/greenroom.service"
DOCKERFILE = ROOT / "deploy/Dockerfile"
SETTINGS_FILE = ROOT / "deploy/greenroom.toml"
PAGE = ROOT / "docs/deployment.md"

KNOWN: dict[str, str] = {
    "Unit": "Description Documentation Wants After StartLimitIntervalSec StartLimitBurst",
    "Service": """
        Type NotifyAccess ExecStart ExecReload Restart RestartSec WatchdogSec TimeoutStartSec
        TimeoutStopSec KillMode DynamicUser User StateDirectory StateDirectoryMode WorkingDirectory
        UMask LoadCredential Environment MemoryMax TasksMax LimitNOFILE LimitCORE NoNewPrivileges
        CapabilityBoundingSet AmbientCapabilities ProtectSystem ProtectHome PrivateTmp
        PrivateDevices PrivateUsers ProtectProc ProtectClock ProtectControlGroups ProtectHostname
        ProtectKernelLogs ProtectKernelModules ProtectKernelTunables RestrictAddressFamilies
        RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality MemoryDenyWriteExecute
        RemoveIPC KeyringMode SystemCallArchitectures SystemCallFilter SystemCallErrorNumber
    """,
    "Install": "WantedBy",
}
"""What systemd knows, in each section, of what is used here: a slip of the pen is not among it."""


def directives(text: str) -> Iterator[tuple[str, str, str]]:
    """The sections, names and values of a unit."""
    section = ""
    for line in text.splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            section = found[1]
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals, f"neither a section nor a directive: {line}"
            yield section, name, value


def unit() -> dict[str, str]:
    """The unit's directives; of those that are there twice, the last."""
    return {name: value for _, name, value in directives(UNIT.read_text())}


def seconds(text: str) -> float:
    """How many there are in "45s", or in a bare number."""
    return float(text.removesuffix("s"))


# systemd


def test_the_unit_has_only_directives_that_exist() -> None:
    unknown = [
        f"[{section}] {name}"
        for section, name, _ in directives(UNIT.read_text())
        if name not in KNOWN.get(section, "").split()
    ]
    assert unknown == []


def installed_unit(folder: Path) -> Path:
    """The unit as it would be on a machine where the command is where this one's is."""
    program = shutil.which("true")
    assert program is not None
    path = folder / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/greenroom/bin/greenroom", program))
    return path


def analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Ask systemd itself."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    return subprocess.run(
        [program, "--no-pager", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    found = analyzed("verify", "--man=no", installed_unit(tmp_path))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_systemd_finds_something_wrong_with_a_wrong_unit(tmp_path: Path) -> None:
    path = installed_unit(tmp_path)
    path.write_text(path.read_text().replace("WatchdogSec=", "WatchDogSec="))
    found = analyzed("verify", "--man=no", path)
    assert "WatchDogSec" in found.stderr


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    """systemd's own scale: 10.0 is a service without any protection, and 2.0 calls for a good reason."""
    path = installed_unit(tmp_path)
    found = analyzed("security", "--offline=true", "--threshold=20", path)
    assert found.returncode == 0, found.stdout[-400:] + found.stderr


def test_the_unit_waits_for_a_drain() -> None:
    assert seconds(unit()["TimeoutStopSec"]) > Config().drain_deadline + GRACE
    assert unit()["Type"] == "notify"


# supervisord


def test_supervisord_waits_for_a_drain() -> None:
    program = shipped_program()
    assert seconds(program["stopwaitsecs"]) > Config().drain_deadline + GRACE
    assert program["stopsignal"] == "TERM"


# What both start


@pytest.mark.parametrize("name", ["unit", "program"])
def test_what_is_started_is_a_command_that_exists(name: str) -> None:
    started = unit()["ExecStart"] if name == "unit" else shipped_program()["command"]
    assert started == "/opt/greenroom/bin/greenroom serve --config /etc/greenroom/greenroom.toml"


def test_the_variables_that_are_set_are_settings() -> None:
    text = UNIT.read_text() + shipped_program()["environment"] + DOCKERFILE.read_text()
    used = set(re.findall(r"GREENROOM_(\w+?)=", text))
    assert used == {"HOST", "PORT", "STORE", "TOKEN_FILE"}
    assert {name.lower() for name in used} - {"token_file"} <= SETTINGS.keys()


def test_the_configuration_can_be_served(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("an-example-of-a-token-that-is-long-enough\n")
    token.chmod(0o600)
    settings = tmp_path / "greenroom.toml"
    text = SETTINGS_FILE.read_text().replace("/etc/greenroom/token", str(token))
    settings.write_text(text.replace("port = 8765", "port = 0"))
    checked = subprocess.run(
        [sys.executable, "-m", "greenroom", "serve", "--check", "--config", str(settings)],
        cwd=ROOT,
        env=environment(GREENROOM_STORE=f"sqlite:///{tmp_path / 'greenroom.db'}"),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "error" not in checked.stdout


# The container


def instructions() -> list[tuple[str, str]]:
    """What the Dockerfile says, line by line."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text()))
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line]


def test_the_container_is_not_roots_and_hears_signals_itself() -> None:
    said = dict(instructions())
    assert said["USER"] == "10001"
    assert said["ENTRYPOINT"] == '["greenroom", "serve"]'
    assert said["STOPSIGNAL"] == "SIGTERM"
    assert 'CMD ["python", "-c"' in said["HEALTHCHECK"]


def test_the_container_gets_every_folder_that_is_installed() -> None:
    ignore = (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    needed = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert needed | {"setup.cfg", "pyproject.toml", "README.md", "LICENSE"} == sent


# The page about it


def block(language: str) -> str:
    """An example of the page."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return str(found)


def test_nginx_accepts_what_the_page_says(tmp_path: Path) -> None:
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin")
    if program is None:
        pytest.skip("nginx is not installed")
    server = re.sub(r"(?m)^ *ssl_.*\n", "", block("nginx")).replace("443 ssl", "127.0.0.1:8443")
    path = tmp_path / "nginx.conf"
    head = f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n"
    path.write_text(f"{head}http {{\naccess_log off;\n{server}\n}}\n")
    tried = subprocess.run(
        [program, "-t", "-p", tmp_path, "-c", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert tried.returncode == 0, tried.stderr


def test_caddy_accepts_what_the_page_says(tmp_path: Path) -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("caddy is not installed")
    path = tmp_path / "Caddyfile"
    path.write_text(block("caddy"))
    tried = subprocess.run(
        [program, "adapt", "--adapter", "caddyfile", "--config", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert tried.returncode == 0, tried.stderr


def test_the_page_names_every_file_and_every_setting_that_it_is_about() -> None:
    text = PAGE.read_text()
    for path in (UNIT, SETTINGS_FILE, DOCKERFILE, ROOT / "deploy/supervisor/greenroom.conf"):
        assert path.relative_to(ROOT).as_posix() in text
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    metrics = (ROOT / "docs/metrics.md").read_text()
    unknown = {name for name in named - SETTINGS.keys() - {"pg_dump"} if f"`{name}`" not in metrics}
    assert unknown == set()
