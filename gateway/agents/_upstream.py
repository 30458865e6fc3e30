"""What comes from a model's endpoint: one streamed answer, put together; and errors, translated.

    status 400, 413, 422                       BadRequest     the client's fault: it is told what it is
    status 401, 403, 404                       Misconfigured  the operator's: credentials, model, address
    status 408, 409, 429, 5xx, no connection   Unavailable    nobody's here: try again later

What an endpoint says about credentials may contain a part of them, so that of these errors neither the
text nor the cause is kept.
"""

from __future__ import annotations

from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from greenroom.gateway._agent import BadRequest, Unavailable
from greenroom.gateway.agents.transcript import as_dict

if TYPE_CHECKING:
    from greenroom.gateway.agents.transcript import Message

__all__ = ["Misconfigured", "Round", "asks_for_no_usage", "import_openai", "translated"]

LONGEST_TEXT = 500

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
}
"""The status for which a type of error stands."""

TRANSPORTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})
"""What carries the requests. Of its errors in the middle of a stream not every release of the client
library makes errors of its own."""


class Misconfigured(RuntimeError):
    """The endpoint cannot be used as the operator has it: the credentials, the model, the address."""


def import_openai() -> Any:
    """The client library, which is loaded when it is needed."""
    try:
        import openai
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        msg = "the agent 'openai' needs the client library: pip install 'greenroom[agents]'"
        raise ModuleNotFoundError(msg, name="openai") from error
    return openai


class Round:
    """One answer of the model, as far as it has come: text, and tools that it wants called."""

    def __init__(self) -> None:
        self.text = ""
        self.finish: str | None = None
        self.usage = (0, 0)
        """Tokens of the prompt, and of the answer. Zero where the endpoint does not tell."""
        self._calls: dict[int, dict[str, str]] = {}
        self._half = ""
        """The first half of a character, whose other half comes with the next chunk."""

    @property
    def calls(self) -> list[dict[str, str]]:
        """The tools that are to be called: `id`, `name` and `arguments` of each."""
        return [self._calls[index] for index in sorted(self._calls)]

    def take(self, chunk: Any) -> str:
        """Take a chunk of the stream in. Returns the text in it."""
        usage = getattr(chunk, "usage", None)
        if usage is not None:  # some endpoints send it with every chunk: the last one counts
            self.usage = (usage.prompt_tokens or 0, usage.completion_tokens or 0)
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish = choice.finish_reason or self.finish
        delta = choice.delta
        if delta is None:
            return ""
        for call in delta.tool_calls or ():
            self._take_call(call)
        text = self._whole(str(delta.content or getattr(delta, "refusal", None) or ""))
        self.text += text
        return text

    def _whole(self, text: str) -> str:
        """Text in whole characters. Some endpoints cut their answers in the middle of one."""
        text, self._half = self._half + text, ""
        if text.isascii():
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def check(self) -> None:
        """Refuse what is no answer: the stream is over, and nothing has come."""
        if self.finish is None and not self.text and not self._calls:
            raise Unavailable("the model's endpoint broke off before it said anything")

    def _take_call(self, call: Any) -> None:
        index = call.index
        if index is None:  # some endpoints send each call whole, and do not number them
            index = len(self._calls)
        kept = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        kept["id"] = kept["id"] or call.id or f"call_{index}"
        if call.function is not None:
            kept["name"] = kept["name"] or call.function.name or ""
            kept["arguments"] += call.function.arguments or ""

    def message(self) -> Message:
        """It, as a message of the assistant's."""
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in self.calls
        ]
        message: Message = {"role": "assistant", "content": self.text}
        return {**message, "tool_calls": calls} if calls else message


def asks_for_no_usage(error: Exception) -> bool:
    """Whether an endpoint refused a request because it cannot tell how many tokens it took."""
    return getattr(error, "status_code", None) in (400, 422) and "stream_options" in str(error)


def translated(error: Exception) -> tuple[Exception, bool]:
    """What an error of the client library means here, and whether the library's own may be kept as its
    cause. Errors of others are returned as they are."""
    openai = import_openai()
    if type(error).__module__.partition(".")[0] in TRANSPORTS or isinstance(error, JSONDecodeError):
        return Unavailable("the model's endpoint cannot be reached, or broke off"), True
    if not isinstance(error, openai.APIError):
        return error, True
    status = _status(error)
    if status in (400, 413, 422):
        return BadRequest(f"the model's endpoint refused the request: {_said(error)}"), True
    if status in (401, 403):
        msg = f"the model's endpoint refused the credentials (status {status}): look at api_key"
        return Misconfigured(msg), False
    if status == 404:
        msg = "the model's endpoint knows no such model, or is none (404): look at model and base_url"
        return Misconfigured(msg), True
    what = f"answers with status {status}" if status else "cannot be reached, or broke off"
    if isinstance(error, openai.APITimeoutError):
        what = "did not answer in time"
    elif status == 429:
        what = "has had enough requests for now (status 429)"
    return Unavailable(f"the model's endpoint {what}", _retry_after(error)), True


def _status(error: Any) -> int | None:
    """The status of an error. One that comes in the middle of a stream has none, and a type at best."""
    status: int | None = getattr(error, "status_code", None)
    return STATUSES.get(as_dict(error.body).get("type", "")) if status is None else status


def _said(error: Any) -> str:
    return str(as_dict(error.body).get("message") or error.message)[:LONGEST_TEXT]


def _retry_after(error: Any) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):  # a date is allowed too, and rare
            continue
        if 0 <= seconds < 1e6:
            return seconds
    return None
