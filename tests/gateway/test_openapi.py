"""The OpenAPI description is true: schemathesis reads it, and sends what it allows and what it forbids.

It runs as a program of its own against a real server, with the same requests in every run. Each answer
must have a status, a media type and a body that the description names for it, errors in the form that
they all have, and none a status of 500 or above: nothing that a client sends makes the server fail.

What it does not hold us to:

    positive_data_acceptance      more is asked of some values than a schema can say: a session's name is
                                  printable, and a conversation ends with somebody's message
    use_after_free,               a session that was ended is still known to the store, and its name can
    ensure_resource_availability  be used again
    allow_header_conformance      `…/a/commit` takes GET as well: a session may be called `a/commit`
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate
from starlette.responses import JSONResponse

from greenroom.gateway.agents.offline import offline
from greenroom.gateway.api._description import errors
from greenroom.gateway.config._config import Config, Token
from tests.gateway.clients import user
from tests.gateway.serving import Serving

pytestmark = pytest.mark.timeout(300)

OPERATOR, TENANT = "a-token-of-an-operator", "a-token-of-a-tenant"
TOKENS = (Token("local", OPERATOR, operator=True), Token("anna", TENANT, operator=False))

NOT_ASKED = (
    "positive_data_acceptance,use_after_free,ensure_resource_availability,allow_header_conformance"
)


@contextmanager
def described(
    tokens: tuple[Token, ...] = (), add: Callable[[FastAPI], None] | None = None
) -> Iterator[Serving]:
    """Serve, with the session that the examples in the description name."""
    server = Serving(Config(store="sqlite://", tokens=tokens), offline, add=add)
    try:
        for token in (OPERATOR, TENANT):
            body = {"user": "anna", "messages": user("Hello")}
            url = f"{server.url}/v1/chat/completions"
            assert httpx.post(url, json=body, headers=bearer(token)).status_code == 200
        yield server
    finally:
        server.stop()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def description_of(server: Serving) -> httpx.Response:
    return httpx.get(f"{server.url}/openapi.json", headers=bearer(OPERATOR))


ALL = "examples,coverage,fuzzing,stateful"
SOME = "examples,fuzzing"


def found(server: Serving, folder: Path, token: str | None, *options: str, phases: str = SOME) -> str:
    """What schemathesis finds fault with: nothing, if all is well."""
    (folder / "openapi.json").write_text(description_of(server).text)
    headers = [] if token is None else ["--header", f"Authorization: Bearer {token}"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", server.url),
            *("--generation-deterministic", "--no-shrink", "--continue-on-failure", "--no-color"),
            *("--phases", phases, "--max-examples", "4", "--warnings", "off"),
            *("--exclude-checks", NOT_ASKED),
            *headers,
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert done.returncode or " passed" in done.stdout  # something was sent
    return done.stdout.partition("= FAILURES =")[2]


# What is sent.


@pytest.mark.parametrize(("token", "phases"), [(OPERATOR, ALL), (TENANT, SOME), (None, SOME)])
def test_whoever_calls_gets_what_the_description_says(
    tmp_path: Path, token: str | None, phases: str
) -> None:
    with described(TOKENS) as server:
        assert found(server, tmp_path, token, phases=phases) == ""


def test_a_server_without_tokens_answers_as_its_description_says(tmp_path: Path) -> None:
    with described() as server:
        assert found(server, tmp_path, None) == ""


def test_what_is_not_so_is_found(tmp_path: Path) -> None:
    with described(add=_add_broken) as server:
        faults = found(server, tmp_path, None, "--include-path-regex", "^/broken")
    assert "Server error" in faults
    assert "Undocumented status code" in faults
    assert "Undocumented Content-Type" in faults
    assert "Response violates schema" in faults


def _add_broken(app: FastAPI) -> None:
    @app.get("/broken/fails")
    async def fails(count: int = 0) -> float:
        return 1 / count

    @app.get("/broken/status")
    async def answers_with_another_status() -> Any:
        return JSONResponse({}, 418)

    @app.get("/broken/media")
    async def answers_with_another_type() -> Any:
        return JSONResponse({}, media_type="application/xml")

    @app.get("/broken/form", responses=errors(404))
    async def has_errors_of_its_own_form() -> Any:
        return JSONResponse({"detail": "It is not here."}, 404)


# The description itself.


def operations(description: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }


def test_the_description_is_valid_and_complete() -> None:
    with described(TOKENS) as server:
        description = description_of(server).json()
    validate(description)  # references that lead nowhere among other things
    all_of_them = operations(description)
    ids = [operation["operationId"] for operation in all_of_them.values()]
    assert sorted(set(ids)) == sorted(ids)
    assert [name for name, what in all_of_them.items() if not what.get("description")] == []
    assert [name for name, what in all_of_them.items() if not what.get("tags")] == []


def test_every_error_has_the_one_form() -> None:
    with described(TOKENS) as server:
        description = description_of(server).json()
    form = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    others = [
        (name, status)
        for name, operation in operations(description).items()
        for status, response in operation["responses"].items()
        if int(status) >= 400 and response["content"] != form
    ]
    assert others == [("GET /readyz", "503")]  # load balancers look at its status only


def test_the_description_says_what_needs_a_token() -> None:
    with described(TOKENS) as server:
        description = description_of(server).json()
    assert description["security"] == [{"token": []}]
    free = [name for name, what in operations(description).items() if what.get("security") == []]
    assert sorted(free) == [
        "GET /healthz",
        "GET /login/state",
        "GET /readyz",
        "POST /login",
        "POST /logout",
    ]
    with described() as server:
        assert description_of(server).json()["security"] == []
