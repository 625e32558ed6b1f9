"""Lines for a terminal."""

import os
import subprocess
import sys

import pytest

from taiyi_fx.records.record import Event
from taiyi_fx.writers import Batch, Store
from tests.writers.runs import numbers, opened, written

HOSTILE = ["\x1b[31mred", "two\nlines", "\u202edrow", "tab\t", "é🦜", "\ud800", "back\\slash"]


def hostile(folder):
    """A run whose names and events would change a terminal."""
    writer = opened(Store, folder)
    for step in range(2):
        batch = numbers(step, [0.0] * len(HOSTILE))
        block = batch.blocks[0]._replace(series=tuple((name, f"q{name}") for name in HOSTILE))
        writer.write(Batch(0, [block], events=[Event(step, "warning", *HOSTILE[:2])]))
    writer.close()
    return folder


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_control_character_of_a_name_reaches_the_terminal(tmp_path, encoding):
    run = str(hostile(tmp_path / "run"))
    other = str(written(Store, tmp_path / "other", [numbers(0, [1.0])]))
    for command in (["show", run, "--events"], ["plot", run], ["compare", run, other],
                    ["show", run, "--json"], ["compare", run, other, "--json"],
                    ["show", run, "--module", "\x1b[31m"], ["show", "\x1b[31m"]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "taiyi_fx", *command],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        text = (done.stdout + done.stderr).decode(encoding)
        assert "Traceback" not in text
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "\\x1b[31m" in text or "\\u001b[31m" in text
