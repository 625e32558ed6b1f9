"""`taiyi-fx doctor`."""

import importlib.metadata
import re
from pathlib import Path


def test_a_whole_installation_is_well(cli, monkeypatch):
    # What trainers need may not fit the rest here.
    monkeypatch.setattr("taiyi_fx.cli.environment._imported", lambda found, module: found)
    code, out, err = cli("doctor")
    assert (code, err) == (0, "")
    told = dict(re.split("  +", line)[1:] for line in out.splitlines()[2:])
    assert told["torch"] == importlib.metadata.version("torch")
    assert told["taiyi-fx"] == importlib.metadata.version("taiyi-fx")
    assert told["self-test"].startswith("a probed model computes what the plain one does")
    assert str(Path.home()) not in out
    assert "broken" not in out
