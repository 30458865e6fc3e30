"""Logs: one line each, of text or JSON, with what it is about and without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from greenroom.gateway.watch._logs import QUIET, configure_logging, redacted, request_id, session_key

SECRET = "0123456789abcdef"

logger = logging.getLogger("greenroom.gateway")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """No test changes how others log."""
    root = logging.getLogger()
    changed = [root, *(logging.getLogger(name) for name in (*QUIET, "uvicorn.error", "uvicorn.asgi"))]
    before = [(one, one.level, list(one.handlers), one.propagate) for one in changed]
    yield
    for one, level, handlers, propagate in before:
        one.setLevel(level)
        one.handlers[:] = handlers
        one.propagate = propagate


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged(capsys)]


def test_a_line_of_text_says_when_how_bad_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    logger.info("Drained in %.1f s", 1.25)
    logger.debug("Not this")
    (line,) = logged(capsys)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO    greenroom\.gateway: Drained in 1\.2 s", line
    )


def test_a_line_says_which_request_and_session_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    first, second = request_id.set("req_1"), session_key.set("alice/chat")
    try:
        logger.info("One")
    finally:
        request_id.reset(first)
        session_key.reset(second)
    logger.info("Two")
    one, two = logged(capsys)
    assert one.endswith("One [request=req_1 session=alice/chat]")
    assert two.endswith("Two")


def test_a_line_of_the_rooms_own_is_about_the_session_that_it_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The room works in the context of whoever sent the last message."""
    configure_logging("info", "json")
    room = logging.getLogger("greenroom.actors")
    first, second = request_id.set("req_1"), session_key.set("alice/chat")
    try:
        room.info("session %r: its agent is closed", "alice/chat")
        room.info("session %r: its agent is closed", "bob/chat")
    finally:
        request_id.reset(first)
        session_key.reset(second)
    hers, his = objects(capsys)
    assert (hers["request_id"], hers["session"]) == ("req_1", "alice/chat")
    assert "request_id" not in his
    assert "session" not in his


def test_a_line_of_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "json")
    mark = request_id.set("req_1")
    try:
        logger.warning("ü %s", "x\ny", extra={"fields": {"status": 200, "path": "/v1", "level": "no"}})
    finally:
        request_id.reset(mark)
    (line,) = objects(capsys)
    at = datetime.fromisoformat(line.pop("time"))
    assert at.utcoffset() is not None
    assert line == {
        "level": "warning",
        "logger": "greenroom.gateway",
        "message": "ü x\ny",
        "request_id": "req_1",
        "status": 200,
        "path": "/v1",
    }


def test_an_exception_comes_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            raise ValueError(f"with {SECRET} in it")
        except ValueError:
            logger.exception("It failed")

    configure_logging("info", "json", secrets=[SECRET])
    fail()
    (line,) = objects(capsys)
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: with *** in it")
    configure_logging("info", "text", secrets=[SECRET])
    fail()
    first, *others = logged(capsys)
    assert first.endswith("It failed")
    assert others[-1] == "    ValueError: with *** in it"
    assert all(other.startswith("    ") for other in others)


def test_what_a_client_sent_breaks_no_line_and_commands_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info")
    mark = session_key.set("a\x1b[2J\nb")
    try:
        logger.info("GET %s", "/x\n2026-01-01 ERROR forged\x1b[31m\r\u2028")
    finally:
        session_key.reset(mark)
    (line,) = logged(capsys)
    assert line.endswith(
        r"GET /x\n2026-01-01 ERROR forged\x1b[31m\r\u2028 [session=a\x1b[2J\nb]",
    )


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_secret_comes_out(capsys: pytest.CaptureFixture[str], format: str) -> None:
    longer = f'{SECRET}"\\tail'
    configure_logging("info", format, secrets=[SECRET, longer, "a"])
    logging.getLogger("somebody.else").warning("%s and %s: banana", SECRET, longer)
    logger.info(
        "Authorization: Bearer abc.def-ghi123 for postgresql://me:hush@db/x", extra={"fields": {}}
    )
    logger.info("field", extra={"fields": {"key": f"x{SECRET}", "list": [SECRET]}})
    written = capsys.readouterr().err
    for secret in (SECRET, "tail", "abc.def", "hush"):
        assert secret not in written
    assert "*** and ***: banana" in written
    assert "Bearer *** for postgresql://me:***@db/x" in written


def test_libraries_that_log_what_they_send_are_kept_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug")
    for name in (*QUIET, "openai._base_client", "sqlalchemy.engine.Engine", "uvicorn.error"):
        logging.getLogger(name).info("a transcript")
        logging.getLogger(name).debug("a transcript")
    logging.getLogger("mine.agent").debug("my own")
    (line,) = logged(capsys)
    assert line.endswith("mine.agent: my own")


def test_uvicorn_logs_through_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    own = logging.getLogger("uvicorn.error")
    own.addHandler(logging.StreamHandler())
    own.propagate = False
    configure_logging("info", "json")
    own.error("It broke")
    (line,) = objects(capsys)
    assert line["logger"] == "uvicorn.error"


def test_the_last_call_counts(capsys: pytest.CaptureFixture[str]) -> None:
    others = list(logging.getLogger().handlers)
    configure_logging("info", "json")
    configure_logging("error", "text")
    logger.warning("Not this")
    logger.error("This")
    (line,) = logged(capsys)
    assert line.endswith("greenroom.gateway: This")
    assert [one for one in logging.getLogger().handlers if one in others] == others


def test_no_secret_comes_out_at_any_step_of_another_call(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that reads its configuration again goes on serving meanwhile."""
    logging.getLogger().handlers.clear()  # pytest's own, which would keep logging from its last resort
    configure_logging("info", secrets=[SECRET])

    def log(frame: Any, _event: str, _argument: Any) -> Any:
        if frame.f_code is not configure_logging.__code__:
            return None
        logger.warning("It has %s", SECRET)
        return log

    before = sys.gettrace()
    sys.settrace(log)
    try:
        configure_logging("info", secrets=[SECRET])
    finally:
        sys.settrace(before)
    lines = logged(capsys)
    assert lines
    assert [line for line in lines if not line.endswith("It has ***")] == []


def test_text_without_secrets_stays_as_it_is() -> None:
    plain = "http://127.0.0.1:8765/x a:b@c bearer of news"
    assert redacted(plain, ["", "abc"]) == plain
