"""Findings sent to an address on the web, in a thread of their own."""

from __future__ import annotations

import http.client
import json
import os
import queue
import threading
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from taiyi_fx.findings import Finding
from taiyi_fx.findings.as_json import as_json
from taiyi_fx.version import __version__

SECONDS = 5.0
"""So long one message may take, and so long `Webhook.close` waits for all."""
_MOST = 100
"""Messages that may wait."""


def is_url(text: str) -> bool:
    """True for an address of http or https."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


class Webhook:
    """Posts findings as JSON to an address, without ever waiting for it.

    Args:
        url: The address, of http or https.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.hostname}"  # the rest of an address may be a secret
        self._messages: queue.Queue[bytes] = queue.Queue(_MOST)
        self._errors: list[str] = []
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def send(self, finding: Finding) -> None:
        """Sends a finding in the background."""
        if os.getpid() != self._process:
            return  # a fork has no part in the run, and no thread
        message = json.dumps(as_json(finding), allow_nan=False).encode()
        try:
            self._messages.put_nowait(message)
        except queue.Full:
            self._errors.append(f"{_MOST} findings wait already")
        if self._thread is None:
            # Not one that Python waits for as it ends: an address may never answer.
            self._thread = threading.Thread(target=self._run, name="taiyi_fx webhook", daemon=True)
            self._thread.start()

    def pop_errors(self) -> list[str]:
        """The errors since the last call."""
        errors, self._errors = self._errors, []
        return [f"a finding could not be sent to {self.name}: {error}" for error in errors]

    def close(self) -> None:
        """Waits until all is sent, but not for long."""
        done = self._messages.all_tasks_done
        if os.getpid() == self._process:
            with done:
                done.wait_for(lambda: not self._messages.unfinished_tasks, SECONDS)

    def _run(self) -> None:
        while True:
            message = self._messages.get()
            try:
                self._post(message)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._errors.append(f"{type(error).__name__}: {error}")
            finally:
                self._messages.task_done()

    def _post(self, message: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": f"taiyi_fx/{__version__}"}
        request = urllib.request.Request(self._url, message, headers, method="POST")
        with _opener().open(request, timeout=SECONDS) as answer:
            answer.read(1)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no answer elsewhere: findings go where the user said, and by http alone."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any):
        """No other request: the answer is an error."""


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)
