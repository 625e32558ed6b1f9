"""The page that tells of presets lists what they ask for, and its code finds what it says."""

import re

import taiyi_fx
from tests.docs.pages import DOCS, run

PAGE = DOCS / "how-to" / "without-a-configuration.md"
START = "<!-- made of taiyi_fx.presets, by tests/config/presets/test_page.py -->\n"


def table():
    """A row for each part, with the presets that have it."""
    rows = ["| of | quantities | in the presets |", "|---|---|---|"]
    every = taiyi_fx.presets()
    parts = {repr(part): part for preset in every for part in preset}
    for part in parts.values():
        names = [f"`{preset.name}`" for preset in every if part in preset.parts]
        shown = "all" if len(names) == len(every) else ", ".join(names)
        quantities = " ".join(f"`{name}`" for name in part.quantities)
        rows.append(f"| {part.of} | {quantities} | {shown} |")
    models = ["| preset | for |", "|---|---|"]
    models += [f"| `{preset.name}` | {preset.models} |" for preset in every]
    return "\n".join([*models, "", *rows])


def test_the_tables_are_those_of_the_presets():
    text = PAGE.read_text(encoding="utf-8")
    assert text == re.sub(f"({re.escape(START)}).*?\n\n(?=What a module)", rf"\1\n{table()}\n\n", text, flags=re.DOTALL)  # fmt: skip


def test_the_code_finds_the_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (printed, shown), _ = run(PAGE)
    assert printed == shown
