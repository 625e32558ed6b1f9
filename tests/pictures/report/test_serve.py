"""The server: what it answers, and to whom."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest

import taiyi_fx
from taiyi_fx.pictures.report import serve
from taiyi_fx.pictures.report.serve import Server
from taiyi_fx.writers import Store
from tests.pictures.report.decoded import Elements, columns, decoded, unframed
from tests.writers.runs import numbers, opened, written


@pytest.fixture
def run(tmp_path):
    return written(Store, tmp_path / "run", [numbers(step, [1.0, step]) for step in range(5)])


@pytest.fixture
def server(run):
    with Server(run) as made:
        thread = threading.Thread(target=made.serve)
        thread.start()
        yield made
        made.stop()
        thread.join()


def answer(server, path="", method="GET", *, absolute=None, **headers):
    """Status, headers and body of an answer."""
    address = urlsplit(server.address)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.putrequest(method, absolute or address.path + path, skip_host="Host" in headers)
    for name, value in headers.items():
        for one in value if isinstance(value, list) else [value]:
            connection.putheader(name, one)
    connection.endheaders()
    found = connection.getresponse()
    body = found.read()
    connection.close()
    return found.status, found.headers, body


def test_the_page_and_its_data_are_served(server, run, tmp_path):
    status, headers, body = answer(server)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    page = Elements(body.decode())
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert headers["Content-Security-Policy"] == f"{page.policy}; frame-ancestors 'none'"
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")
    first = decoded(body.decode())
    assert first.chunks == {}
    status, headers, body = answer(server, "header")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    head = json.loads(body)
    assert head["runs"] == first.header["runs"]
    whole = decoded(taiyi_fx.report(run, tmp_path / "x.html")).series()
    (chunk,) = head["runs"][0]["chunks"]
    entry, arrays = unframed(answer(server, f"chunk/{chunk['id']}")[2])
    later, some = unframed(answer(server, f"chunk/{chunk['id']}?after=2")[2])
    for s in head["runs"][0]["series"]:
        name = s["module"], s["quantity"], s["mode"]
        assert columns(entry, arrays, s["row"]) == whole[name]
        assert columns(later, some, s["row"]) == {k: v for k, v in whole[name].items() if k[0] > 2}


def test_nothing_is_kept_sniffed_framed_or_told_to_others(server):
    for path in ("", "header", "chunk/2", "nothing"):
        headers = answer(server, path)[1]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
        assert headers["Server"] == "taiyi-fx"
        assert "Access-Control-Allow-Origin" not in headers


def test_without_the_token_there_is_nothing(server):
    token = urlsplit(server.address).path.strip("/")
    assert len(token) >= 43
    wrong = [
        "/", "//", f"/{token}", f"/{token[:-1]}/", f"/{token}x/", f"/{token.swapcase()}/header",
        "/header", "/chunk/2", "/favicon.ico", "/%C3%A9/",
        f"/x/../{token}/",
    ]  # fmt: skip
    for path in wrong:
        status, _, body = answer(server, absolute=path)
        assert (status, body) == (404, b"there is nothing here"), path


@pytest.mark.parametrize(
    "path",
    [
        "..", "../", "run.sqlite", "../run.sqlite", "%2e%2e/run.sqlite", "chunk", "chunk/",
        "chunk/x", "chunk/-1", "chunk/1e3", "chunk/2/3", "chunk/../header", "header/", "static/",
        "page.html", "chunk/99", "chunk/3", "chunk/" + "9" * 50, "chunk/%C2%B2",
    ],
)  # fmt: skip
def test_nothing_else_is_served(server, path):
    assert answer(server, path)[0] == 404


@pytest.mark.parametrize("after", ["", "x", "1.5", "--1", "%00", "9" * 50])
def test_what_is_no_step_is_refused(server, after):
    assert answer(server, f"chunk/2?after={after}")[0] == 400


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
)
def test_nothing_can_be_written(server, method):
    status, headers, _ = answer(server, method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_a_head_has_no_body(server):
    status, headers, body = answer(server, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 100


def test_other_names_of_this_machine_are_refused(server):
    port = urlsplit(server.address).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert answer(server, Host=host)[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost", "",
                 f"127.0.0.1:{port}.evil.example", f"0.0.0.0:{port}"):  # fmt: skip
        assert answer(server, Host=host)[0] == 403, host
    assert answer(server, Host=[f"localhost:{port}", "evil.example"])[0] == 403


def test_only_this_machine_can_connect(server):
    port = urlsplit(server.address).port
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        if not other.startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((other, port), timeout=2)
    assert urlsplit(server.address).hostname == "127.0.0.1"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=2)


def test_a_run_that_is_gone_is_told(server, run):
    (run / "run.sqlite").unlink()
    head = json.loads(answer(server, "header")[2])
    assert "it has neither run.sqlite nor run.json" in head["live"]["problem"]
    status, _, body = answer(server, "chunk/2")
    assert status == 503
    assert b"it has neither" in body
    assert answer(server)[0] == 200


@pytest.mark.parametrize("target", ["http://[/", "//[", "*", "?", "x", "http://evil.example/"])
def test_what_is_no_path_of_this_server_is_not_found(server, capsys, target):
    address = urlsplit(server.address)
    asked = f"GET {target} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(asked.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 404 ")
    assert capsys.readouterr().err == ""


def test_a_page_that_is_closed_is_no_error(server, capsys):
    address = urlsplit(server.address)
    for _ in range(3):
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(b"GET ")
    assert answer(server)[0] == 200
    assert capsys.readouterr().err == ""


def slow_connections(server, many):
    """Connections that have begun a request and do not go on."""
    address = urlsplit(server.address)
    every = [socket.create_connection((address.hostname, address.port)) for _ in range(many)]
    for connection in every:
        with contextlib.suppress(ConnectionError):  # it had to give way
            connection.sendall(b"GET /")
    return every


def are_closed(connections):
    """How many of them the server has ended."""
    return sum(is_closed(connection) for connection in connections)


def is_closed(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def until(claim, seconds=20):
    end = time.monotonic() + seconds
    while not claim() and time.monotonic() < end:
        time.sleep(0.05)
    assert claim()


def test_three_hundred_slow_connections_leave_room_for_a_page(server):
    before = threading.active_count()
    slow = slow_connections(server, 300)
    until(lambda: are_closed(slow) >= 300 - serve._CONNECTIONS)
    until(lambda: threading.active_count() - before <= serve._CONNECTIONS)
    assert answer(server)[0] == 200
    for connection in slow:
        connection.close()
    until(lambda: threading.active_count() <= before)


def test_a_request_that_never_ends_is_ended(server, monkeypatch):
    monkeypatch.setattr(serve, "_REQUEST_SECONDS", 0.5)
    (slow,) = slow_connections(server, 1)
    end = time.monotonic() + 20
    with contextlib.suppress(ConnectionError):
        while not is_closed(slow) and time.monotonic() < end:
            slow.send(b"x")  # a time-out for each byte would begin anew
            time.sleep(0.05)
    assert time.monotonic() < end
    slow.close()


def test_an_answer_that_is_not_taken_is_ended(server, monkeypatch):
    monkeypatch.setattr(serve, "_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(serve._Handler, "_answer", lambda _: huge)
    huge = serve._Answer(serve.HTTPStatus.OK, "text/plain", bytes(100_000_000))
    before = threading.active_count()
    address = urlsplit(server.address)
    slow = socket.create_connection((address.hostname, address.port))
    slow.sendall(b"GET / HTTP/1.1\r\n\r\n")
    until(lambda: threading.active_count() == before + 1)
    until(lambda: threading.active_count() == before)
    slow.close()


def test_a_connection_answers_many_requests(server):
    address = urlsplit(server.address)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    for _ in range(3):
        connection.request("GET", address.path + "header")
        assert connection.getresponse().read()
    connection.close()


def test_wrong_arguments_are_told(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="no run in"):
        Server(tmp_path / "none")
    with pytest.raises(ValueError, match="a port is a whole number from 0 to 65535, not 70000"):
        Server(run, 70_000)
    with Server(run) as first, pytest.raises(OSError, match="in use"):
        Server(run, urlsplit(first.address).port or 0)


def test_a_run_of_another_process_is_watched_until_an_interrupt(tmp_path):
    writer = opened(Store, tmp_path / "run")
    command = [sys.executable, "-m", "taiyi_fx", "watch", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:  # fmt: skip
        assert process.stdout is not None
        made = type("Address", (), {"address": process.stdout.readline().strip()})
        assert "Ctrl-C" in process.stdout.readline()
        for step in range(3):
            writer.write(numbers(step, [float(step)]))
            writer.flush()
            (series,) = json.loads(answer(made, "header")[2])["runs"][0]["series"]
            assert series["latest"] == step
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    writer.close()
    assert (process.returncode, err) == (0, "")
