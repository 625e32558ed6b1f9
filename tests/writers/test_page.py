"""The page on writers: its code runs, its links lead somewhere, its table lists them all."""

import importlib.util
import re
from pathlib import Path

import pytest

from taiyi_fx import writers

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "writers.md"
DASHBOARDS = {"wandb", "mlflow", "trackio"}


def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def needs(block):
    words = {name.lower() for name in re.findall(r"\w+", block)}
    return DASHBOARDS & words


@pytest.mark.filterwarnings("ignore:The ``noload``:DeprecationWarning")
def test_the_code_of_the_page_on_writers_runs(wandb_offline, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    namespace = {"__name__": "docs.writers"}
    skipped = set()
    for block in blocks():
        missing = {name for name in needs(block) if importlib.util.find_spec(name) is None}
        skipped |= missing
        if not missing:
            exec(compile(block, "writers.md", "exec"), namespace)
    namespace["model"].monitor.close()
    assert skipped <= DASHBOARDS
    assert namespace["rates"] == dict.fromkeys(range(20), 0.1)
    assert (tmp_path / "spectra.png").read_bytes().startswith(b"\x89PNG")
    assert "InputMean" in capsys.readouterr().out


def test_the_table_lists_all_writers():
    table = PAGE.read_text("utf-8").partition("| writer |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"^\| `(\w+)\(", table, re.MULTILINE))
    assert listed == {
        name for name in writers.__all__
        if hasattr(getattr(writers, name), "flush") and name != "Writer"
    }  # fmt: skip
