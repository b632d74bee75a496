"""HTTP/1.1 to a gate over TCP or its Unix socket, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from .errors import unavailable

# A gate answers a call within its tool's deadline, at most ten minutes, and writes at least every second to a stream.
TIMEOUT = 660.0


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as a value; none if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Address:
    """Where a gate answers: `http://HOST:PORT`, `https://HOST`, or `unix:PATH`."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self.url = url
        parts = urlsplit(url)
        self._path = unquote(url.partition(":")[2]) if parts.scheme == "unix" else ""
        self._path = "/" + self._path.lstrip("/") if self._path.startswith("//") else self._path
        self._host, self._scheme, self._context = parts.netloc, parts.scheme, context
        if parts.scheme not in ("http", "https", "unix"):
            raise ValueError(f"`{url}` is no address of a gate: write http://HOST:PORT, https://HOST or unix:PATH")
        if parts.scheme != "unix" and parts.path not in ("", "/"):
            raise ValueError(f"`{url}` has a path: write only scheme, host and port")

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._scheme == "unix":
            return _Unix(self._path, timeout)
        if self._scheme == "https":
            return http.client.HTTPSConnection(self._host, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._host, timeout=timeout)

    def _begin(
        self, verb: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._connect(timeout)
        try:
            connection.connect()
        except OSError as why:
            raise unavailable(f"no answer from the gate at {self.url}: {why}", sent=False) from why
        try:
            connection.request(verb, path, body=body, headers=dict(headers))
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as why:
            connection.close()
            raise unavailable(f"no answer from the gate at {self.url}: {why or type(why).__name__}") from why

    def ask(
        self, verb: str, path: str, headers: Mapping[str, str], body: bytes | None = None, timeout: float = TIMEOUT
    ) -> Reply:
        """One request, and its whole answer."""
        connection, response = self._begin(verb, path, headers, body, timeout)
        try:
            lowered = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, lowered, response.read())
        except (OSError, http.client.HTTPException) as why:
            raise unavailable(f"the gate at {self.url} did not finish its answer: {why}") from why
        finally:
            connection.close()

    def events(self, path: str, headers: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
        """The events of a call: (name, id, data). An answer that is no stream is one event without a name."""
        connection, response = self._begin("GET", path, {**headers, "Accept": "text/event-stream"}, None, TIMEOUT)
        try:
            kind = response.getheader("content-type", "")
            if not kind.startswith("text/event-stream"):
                reply = Reply(response.status, {}, response.read())
                yield "", str(reply.status), reply.json()
                return
            yield from _read(response)
        except (OSError, http.client.HTTPException) as why:
            raise unavailable(f"the gate at {self.url} ended the stream: {why}") from why
        finally:
            connection.close()


def _read(lines: Any) -> Iterator[tuple[str, str, Any]]:
    name, ident = "", ""
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        member, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, ident, json.loads("\n".join(data))
            name, data = "", []
        elif member == "event":
            name = value
        elif member == "id":
            ident = value
        elif member == "data":
            data.append(value)


def secret(name: str) -> str | None:
    """A secret of the environment: `NAME`, or the file that `NAME_FILE` names."""
    if os.environ.get(name):
        return os.environ[name]
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
