"""Findings sent to a local server."""

import contextlib
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from taiyi_fx.watch import webhook
from taiyi_fx.watch.webhook import Webhook
from tests.watch.given import finding


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.got.append("a request that was sent elsewhere")

    def do_POST(self):
        got = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], json.loads(got)))
        self.server.may_answer.wait(5)
        self.send_response(self.server.code)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


@contextlib.contextmanager
def serving(code=200):
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        server.got, server.code, server.may_answer = [], code, threading.Event()
        server.may_answer.set()
        server.url = f"http://127.0.0.1:{server.server_port}/secret"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def without_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_finding_comes_as_json():
    with serving() as server:
        hook = Webhook(server.url)
        hook.send(finding(consequences=(finding("non_finite"),)))
        hook.close()
    ((path, kind, got),) = server.got
    assert (path, kind) == ("/secret", "application/json")
    assert (got["kind"], got["module"], got["step"], got["value"]) == ("outlier", "fc", 3, 9.0)
    assert got["text"] == "it is 9"
    assert got["consequences"][0]["kind"] == "non_finite"
    assert hook.pop_errors() == []


def test_training_does_not_wait_for_an_answer_and_the_end_not_for_long(monkeypatch):
    monkeypatch.setattr(webhook, "SECONDS", 0.2)
    with serving() as server:
        server.may_answer.clear()
        hook, begin = Webhook(server.url), time.monotonic()
        for _ in range(150):
            hook.send(finding())
        assert time.monotonic() - begin < 2
        hook.close()
        assert time.monotonic() - begin < 4
        server.may_answer.set()
    assert any("100 findings wait already" in error for error in hook.pop_errors())


@pytest.mark.parametrize("code", [500, 404, 302, 307])
def test_an_answer_that_is_an_error_or_elsewhere_is_told_without_the_address(code):
    with serving(code) as server:
        hook = Webhook(server.url)
        hook.send(finding())
        hook.close()
        assert len(server.got) == 1
    (error,) = hook.pop_errors()
    assert error.startswith("a finding could not be sent to http://127.0.0.1: HTTPError")
    assert "secret" not in error


def test_a_server_that_is_not_there_is_told():
    with serving() as server:
        url = server.url
    hook = Webhook(url)
    hook.send(finding())
    hook.close()
    (error,) = hook.pop_errors()
    assert "Connection refused" in error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_sends_nothing():
    with serving() as server:
        hook = Webhook(server.url)
        child = os.fork()
        if child == 0:
            hook.send(finding())
            hook.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.got == []
