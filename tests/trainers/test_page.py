"""The code of the page on trainers runs."""

import re
from pathlib import Path

import pytest

import tests.trainers.digits  # noqa: F401 - frameworks can then be imported

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "trainers.md"
SECTIONS = {
    "Lightning": "lightning",
    "transformers": "transformers",
    "Accelerate": "accelerate",
    "Ignite": "ignite",
}


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.filterwarnings("ignore")  # of trainers, about small data and few workers
def test_the_code_of_the_page_runs(section, tmp_path, monkeypatch, capsys):
    pytest.importorskip(SECTIONS[section])
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    texts = page.split("\n## ")
    (text,) = (t for t in texts if t.startswith(f"{section}\n"))
    namespace = {}
    for block in (python_block(texts[0]), python_block(text)):
        exec(compile(block, PAGE.name, "exec"), namespace)
    records = capsys.readouterr().out
    assert "OutputGradSndNorm" in records
    assert "0 ... 3 (4)" in records
    if section != "Ignite":
        assert "loss" in records


def python_block(text):
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return block
