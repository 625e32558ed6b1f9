"""A run as a page, from the command line; what the server answers is tested beside it."""

import webbrowser

import pytest

from taiyi_fx.pictures.report.serve import Server
from tests.cli.conftest import recorded
from tests.pictures.report.decoded import decoded


@pytest.fixture
def shown(monkeypatch):
    """Addresses that were given to a browser."""
    addresses = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses


def test_a_page_is_written_beside_under_the_runs_name(cli, tmp_path, monkeypatch, shown):
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "runs" / "exp1", loss=1.0)
    code, out, err = cli("report", "runs/exp1")
    assert (code, err, shown) == (0, "", [])
    size = (tmp_path / "exp1.html").stat().st_size / 1e6
    assert out == f"exp1.html: {size:.1f} MB\n"
    page = decoded(tmp_path / "exp1.html")
    assert page.header["title"] == "exp1"
    assert ("", "loss", "train") in page.series()


def test_two_runs_are_written_and_shown(cli, tmp_path, shown):
    one, two = recorded(tmp_path / "one"), recorded(tmp_path / "two", range(7))
    file = tmp_path / "both.html"
    code, _, err = cli("report", one, "--compare", two, "-o", file, "--open")
    assert (code, err, shown) == (0, "", [file.as_uri()])
    page = decoded(file)
    assert len(page.series(0)["0", "WeightNorm", "train"]) == 4
    assert len(page.series(1)["0", "WeightNorm", "train"]) == 7


def test_a_page_that_is_there_is_replaced_only_by_force(cli, tmp_path):
    run, file = recorded(tmp_path / "run"), tmp_path / "page.html"
    file.write_text("mine")
    code, out, err = cli("report", run, "-o", file)
    assert (code, out) == (2, "")
    assert f"{file} is there already: --force replaces it" in err
    assert file.read_text() == "mine"
    assert cli("report", run, "-o", file, "--force")[0] == 0
    assert decoded(file).header["title"] == "run"


@pytest.mark.parametrize("command", ["report", "watch"])
def test_what_is_no_run_is_told(cli, tmp_path, command):
    code, out, err = cli(command, tmp_path)
    assert (code, out) == (2, "")
    assert "it has neither run.sqlite nor run.json" in err
    (tmp_path / "run.sqlite").write_text("hello, this is no database at all" * 100)
    assert "is damaged, or no run" in cli(command, tmp_path)[2]


def test_a_page_that_cannot_be_written_is_told(cli, tmp_path):
    run = recorded(tmp_path / "run")
    code, _, err = cli("report", run, "-o", tmp_path / "none" / "page.html")
    assert code == 2
    assert "there is no folder" in err
    code, _, err = cli("report", run, "--compare", tmp_path / "none", "-o", tmp_path / "page.html")
    assert code == 2
    assert "there is no such folder" in err


def test_an_interrupt_ends_watching_quietly(cli, tmp_path, monkeypatch, shown):
    def interrupted(server):
        assert shown == [server.address]
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve", interrupted)
    code, out, err = cli("watch", recorded(tmp_path / "run"), "--open")
    assert (code, err) == (0, "")
    assert out.startswith(f"{shown[0]}\n")


def test_a_port_that_is_none_or_taken_is_told(cli, tmp_path):
    run = recorded(tmp_path / "run")
    assert "a port is a whole number from 0 to 65535" in cli("watch", run, "--port", 70_000)[2]
    with Server(run) as server:
        port = server.address.split(":")[2].split("/")[0]
        code, out, err = cli("watch", run, "--port", port)
    assert (code, out) == (2, "")
    assert "in use" in err
