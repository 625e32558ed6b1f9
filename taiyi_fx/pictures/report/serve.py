"""The server of the live page: for this machine only, behind a token, and read-only."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs

from taiyi_fx.pictures.report.chunks import Chunk
from taiyi_fx.pictures.report.header import as_json
from taiyi_fx.pictures.report.live import LiveRun
from taiyi_fx.pictures.report.page import assemble
from taiyi_fx.runs.opening import open_run

HOST = "127.0.0.1"
_JSON, _HTML, _BYTES = "application/json", "text/html; charset=utf-8", "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
_CONNECTIONS = 64
"""The most connections open at once, each with a thread. A page has six."""
_REQUEST_SECONDS = 30
"""The time to send a request, from the connection or the answer before it."""
_ANSWER_SECONDS = 120
"""The time to take an answer."""
_NOTHING_ELSE = "default-src 'none'"


class Server:
    """Serves the live page of a run on 127.0.0.1.

    The page's address has a random token. Requests without it, or for another host's name, are
    refused, and nothing can be written. Use it in a ``with`` block, or close it.

    Args:
        path: The run's folder.
        port: The port to listen on; 0 for any free one.

    Attributes:
        address: The page's address, with its token.

    Raises:
        FileNotFoundError: There is no run.
        ImportError: It is in Parquet, and pyarrow is not installed.
        OSError: It cannot be read, or the port is taken.
        ValueError: It is damaged, or the port is out of range.
    """

    def __init__(self, path: str | os.PathLike[str], port: int = 0) -> None:
        if not 0 <= port < 2**16:
            raise ValueError(f"a port is a whole number from 0 to 65535, not {port}")
        with open_run(path) as run:
            live = LiveRun(run.path)
        self._http = _Http((HOST, port), live)
        self.address = f"http://{HOST}:{self._http.server_port}/{self._http.token}/"

    def serve(self) -> None:
        """Answers requests until `stop` is called from another thread, or until an interrupt."""
        self._http.serve_forever()

    def stop(self) -> None:
        """Has the thread that answers requests return; for another thread to call."""
        self._http.shutdown()

    def close(self) -> None:
        """Closes the port."""
        self._http.server_close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Connections:
    """The open connections: not too many, and none for ever.

    A time-out of a socket restarts with each byte, so a client that sends one now and then would
    keep its thread. Here a whole request has one deadline, and a whole answer another. Where there
    are too many connections, the one that waits longest for its request gives way to a new one: a
    browser opens it again when it needs it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, float] = {}
        self._answered: dict[socket.socket, float] = {}

    def wait(self, connection: socket.socket) -> None:
        """A connection has a request to send."""
        with self._lock:
            self._answered.pop(connection, None)
            self._waiting.pop(connection, None)  # so that it becomes the last of them
            self._waiting[connection] = time.monotonic() + _REQUEST_SECONDS
            if len(self._waiting) + len(self._answered) > _CONNECTIONS:
                self._end(next(iter(self._waiting)))

    def answer(self, connection: socket.socket) -> None:
        """A connection has an answer to take."""
        with self._lock:
            if self._waiting.pop(connection, None) is not None:
                self._answered[connection] = time.monotonic() + _ANSWER_SECONDS

    def forget(self, connection: socket.socket) -> None:
        """A connection is closed."""
        with self._lock:
            self._waiting.pop(connection, None)
            self._answered.pop(connection, None)

    def end_late(self) -> None:
        """Ends those that are past their deadlines."""
        now = time.monotonic()
        with self._lock:
            every = [*self._waiting.items(), *self._answered.items()]
            for connection, deadline in every:
                if deadline < now:
                    self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        """Ends a connection; its thread then finds it closed, and ends too."""
        self._waiting.pop(connection, None)
        self._answered.pop(connection, None)
        with suppress(OSError):  # the client has closed it already
            connection.shutdown(socket.SHUT_RDWR)


class _Http(ThreadingHTTPServer):
    """The standard library's server, with the run and the token for its handlers."""

    daemon_threads = True
    request_queue_size = 2 * _CONNECTIONS

    def __init__(self, address: tuple[str, int], live: LiveRun) -> None:
        self.live = live
        self.token = secrets.token_urlsafe()
        self.connections = _Connections()
        super().__init__(address, _Handler)
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:  # the base class's types
        """Counts a connection before it gets its thread."""
        self.connections.wait(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # the base class's type
        """Closes a connection."""
        self.connections.forget(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Looks after the connections, twice a second."""
        self.connections.end_late()

    def handle_error(self, request: Any, client_address: Any) -> None:  # the base class's types
        """Prints an error, unless it is only that a page was closed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Answer(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes
    policy: str = _NOTHING_ELSE


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """Answers the next request of the connection."""
        cast("_Http", self.server).connections.wait(self.connection)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Reads the head of a request."""
        is_whole = super().parse_request()
        cast("_Http", self.server).connections.answer(self.connection)
        return is_whole

    def do_GET(self) -> None:
        """Answers a request."""
        self._send(self._answer())

    def do_HEAD(self) -> None:
        """Answers a request without the body."""
        self._send(self._answer(), with_body=False)

    def _refuse(self) -> None:
        """Refuses a method that would write."""
        self.close_connection = True  # a body that is not read would be the next request
        refusal = _failure(HTTPStatus.METHOD_NOT_ALLOWED, "this server only reads")
        self._send(refusal, Allow="GET, HEAD")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def version_string(self) -> str:
        """The server's name in its headers, without versions."""
        return "taiyi-fx"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        """Prints nothing for a request."""

    def _answer(self) -> _Answer:
        http = cast("_Http", self.server)
        if not self._is_for(http):
            return _failure(HTTPStatus.FORBIDDEN, "this address is not served here")
        path, _, query = self.path.partition("?")
        _, token, *rest = [*path.split("/", 2), ""]
        if not secrets.compare_digest(token.encode(), http.token.encode()) or len(rest) != 2:
            return _failure(HTTPStatus.NOT_FOUND, "there is nothing here")
        return _found(http.live, rest[0], query)

    def _is_for(self, http: _Http) -> bool:
        """True if the request names this machine: any other name may be set to lead here."""
        return self.headers.get_all("Host", [])[1:] == [] and self.headers["Host"] in http.names

    def _send(self, answer: _Answer, *, with_body: bool = True, **more: str) -> None:
        self.send_response(answer.status)
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.body)),
            "Content-Security-Policy": f"{answer.policy}; frame-ancestors 'none'",
            **_HEADERS,
            **more,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)


_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def _found(live: LiveRun, path: str, query: str) -> _Answer:
    if path == "":
        page = assemble(live.header(), [])
        return _Answer(HTTPStatus.OK, _HTML, page.text.encode(errors="replace"), page.policy)
    if path == "header":
        return _Answer(HTTPStatus.OK, _JSON, as_json(live.header()).encode("ascii"))
    kind, _, number = path.partition("/")
    if kind != "chunk" or not _is_whole(number):
        return _failure(HTTPStatus.NOT_FOUND, "there is nothing here")
    return _chunk(live, int(number), query)


def _chunk(live: LiveRun, number: int, query: str) -> _Answer:
    asked = parse_qs(query, keep_blank_values=True)
    (after,) = asked.get("after", [None])[-1:]
    if after is not None and not _is_whole(after.removeprefix("-")):
        return _failure(HTTPStatus.BAD_REQUEST, "after is a step, a whole number")
    try:
        chunk = live.chunk(number, None if after is None else int(after))
    except (OSError, ValueError) as error:
        return _failure(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    if chunk is None:
        return _failure(HTTPStatus.NOT_FOUND, "there is no such chunk")
    return _Answer(HTTPStatus.OK, _BYTES, framed(chunk))


def framed(chunk: Chunk) -> bytes:
    """A chunk as bytes: its entry's length (four bytes, little-endian), the entry, the data."""
    entry = as_json(chunk.entry).encode("ascii")
    return struct.pack("<I", len(entry)) + entry + chunk.data()


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _failure(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(status, _TEXT, text.encode(errors="replace"))
