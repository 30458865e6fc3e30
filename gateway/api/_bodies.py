"""What clients send: checked as a whole, and refused with the name of what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from greenroom.gateway._errors import bad_request
from greenroom.gateway._naming import check_session, new_session

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive

    from greenroom.gateway._errors import ApiError

__all__ = ["Body", "body_of", "describe_body", "pick_busy", "pick_session"]

Json = dict[str, Any] | list[Any] | str | float | None

BodyT = TypeVar("BodyT", bound=BaseModel)

SESSION_HEADER = "x-greenroom-session"
BUSY_HEADER = "x-greenroom-busy"


class Body(BaseModel):
    """What bodies have in common. What is not known is kept: agents may know it."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    model: str = Field(default="", max_length=200)
    stream: bool | None = False
    user: str | None = None
    metadata: dict[str, Any] | None = None
    busy: Literal["queue", "reject", "interrupt"] | None = Field(
        default=None, description="What to do if the session is in a turn; else what the server does."
    )


async def body_of(request: Request, kind: type[BodyT], *, if_empty: BodyT | None = None) -> BodyT:
    """Read a body, once. JSON is read here and not by the framework, which lets halves of characters
    through."""
    raw = await _read_all(request.receive)
    if if_empty is not None and not raw:
        return if_empty
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in ("application/json", ""):
        msg = f"the body must be application/json, not {media[:80]!r}"
        raise bad_request(msg, code="unsupported_media_type")
    try:
        if b"NaN" in raw or b"Infinity" in raw:
            # A word in a text, or no JSON: clients could not read it.
            from_json(raw, allow_inf_nan=False)
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise invalid(error) from None
    except ValueError as error:
        raise bad_request(f"The body is not as it should be. Invalid JSON: {error}") from None


async def _read_all(receive: Receive) -> bytes:
    """The bytes of a body. The framework's way costs more than to check what is in them."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def invalid(error: ValidationError) -> ApiError:
    """Say what is wrong with a body, the first thing first."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    text = f"{where}: {first['msg']}{more}" if where else f"{first['msg']}{more}"
    return bad_request(f"The body is not as it should be. {text}", param=where or None)


def describe_body(kind: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """What the OpenAPI description says of a route that reads its body with `body_of`."""
    schema = kind.model_json_schema()
    schema = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def _inlined(schema: Json, parts: dict[str, Any]) -> Any:
    """A schema in one piece: what it refers to is put where it is referred to."""
    if isinstance(schema, list):
        return [_inlined(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[str(schema["$ref"]).rpartition("/")[2]], parts)
    return {name: _inlined(value, parts) for name, value in schema.items()}


def pick_session(request: Request, body: Body) -> str | None:
    """Whose session it is: the header says, or else the metadata, or else the user. `None`: nobody's."""
    metadata = body.metadata or {}
    for where, name in (
        (SESSION_HEADER, _utf8(request.headers.get(SESSION_HEADER))),
        ("metadata.session", metadata.get("session")),
        ("metadata.session_id", metadata.get("session_id")),
        ("user", body.user),
    ):
        if name is None or name == "":
            continue
        if not isinstance(name, str):
            msg = f"a session's name is text, not {type(name).__name__}"
            raise bad_request(msg, param=where)
        try:
            return check_session(name)
        except ValueError as error:
            raise bad_request(str(error), param=where) from None
    return None


def _utf8(header: str | None) -> str | None:
    """A header as it was meant: the framework takes its bytes for Latin-1."""
    if header is None:
        return None
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        msg = "a session's name is text in UTF-8"
        raise bad_request(msg, param=SESSION_HEADER) from None


def pick_busy(request: Request, body: Body) -> str | None:
    """What to do if the session is busy, if the request says so."""
    wanted = request.headers.get(BUSY_HEADER) or body.busy
    if wanted not in (None, "queue", "reject", "interrupt"):
        msg = f"busy is queue, reject or interrupt, not {wanted[:80]!r}"
        raise bad_request(msg, param=BUSY_HEADER)
    return wanted


def once() -> str:
    """A name for a session that ends with its request."""
    return new_session("once")
