"""A model's endpoint on loopback: real HTTP, and answers as the test has written them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Self


def chunk(
    text: str | None = None, *, finish: str | None = None, calls: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A chunk of a streamed answer, as OpenAI sends it."""
    delta: dict[str, Any] = {}
    if text is not None:
        delta["content"] = text
    if calls is not None:
        delta["tool_calls"] = calls
    return _chunk([{"index": 0, "delta": delta, "finish_reason": finish}])


def call(index: int | None, name: str | None, arguments: str, id_: str | None = None) -> dict[str, Any]:
    """A part of a tool call in a chunk."""
    return {
        "index": index,
        "id": id_,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def usage(prompt: int, completion: int) -> dict[str, Any]:
    """The chunk that tells how many tokens it took."""
    total = prompt + completion
    spent = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return {**_chunk([]), "usage": spent}


def _chunk(choices: list[Any]) -> dict[str, Any]:
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


@dataclass
class Reply:
    """What the endpoint answers to one request: chunks of a stream, or an error."""

    chunks: list[Any] = field(default_factory=list[Any])
    """Dicts; text, which is sent as it is; an `asyncio.Event`, which is waited for; `None`: it breaks
    off there."""
    status: int = 200
    error: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


def said(*texts: str, finish: str = "stop", more: list[Any] | None = None) -> Reply:
    """A plain streamed answer."""
    return Reply([*(chunk(text) for text in texts), chunk(finish=finish), *(more or [])])


class Endpoint:
    """Answers each request with the next of its replies, and the last of them again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.connections = 0
        self.hung_up = asyncio.Event()
        """Set when a client closes its connection in the middle of an answer."""
        self.left = asyncio.Event()
        """Set when no client is connected any more."""
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            first: bytes | None = b""
            while first is not None:
                first = await self._serve_one(first, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connections -= 1
            if not self.connections:
                self.left.set()
            writer.close()

    async def _serve_one(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """Serve one request, whose first byte was read already or not. Returns that of the next one;
        `None`: there is none."""
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(json.loads(body))
        self.keys.append(headers.get("authorization", ""))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply.status != 200:
            await self._refuse(writer, reply)
            return b""
        return await self._stream(reader, writer, reply)

    async def _refuse(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        body = json.dumps({"error": {"message": reply.error, "type": "x", "code": None}}).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        writer.write(
            f"HTTP/1.1 {reply.status} No\r\ncontent-type: application/json\r\n{more}"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply
    ) -> bytes | None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        gone = asyncio.ensure_future(reader.read(1))
        for item in [*reply.chunks, "[DONE]"]:
            if isinstance(item, asyncio.Event):
                opened = asyncio.ensure_future(item.wait())
                await asyncio.wait([opened, gone], return_when=asyncio.FIRST_COMPLETED)
                opened.cancel()
            if gone.done():
                self.hung_up.set()
                return None
            if item is None:
                writer.transport.abort()
                return None
            if not isinstance(item, asyncio.Event):
                data = f"data: {item if isinstance(item, str) else json.dumps(item)}\n\n".encode()
                writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return await gone or None
