"""`taiyi-fx watch`."""

from taiyi_fx.pictures.report.serve import Server
from tests.cli.conftest import recorded


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
