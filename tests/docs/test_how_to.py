"""Pages that answer one question each: their code runs, and prints what they show."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT, run, without_numbers

SHOWN = {
    "how-to/check-a-step": 3,
    "how-to/findings": 3,
    "how-to/first-nan": 5,
    "how-to/nan-last-night": 11,
    "how-to/attention": 3,
    "how-to/experts": 1,
    "how-to/large-models": 4,
    "how-to/amp-and-accumulation": 2,
    "how-to/compile": 3,
    "how-to/own-passes": 3,
    "how-to/own-quantities": 5,
    "how-to/own-writers": 4,
    "how-to/gan": 3,
    "how-to/lora": 2,
    "how-to/learning-rate": 2,
    "how-to/mixed-precision": 2,
    "how-to/optimizer": 3,
    "how-to/low-precision": 2,
    "reference/configuration": 6,
}
"""Pages, and how many blocks of code each has."""


@pytest.mark.slow  # `make docs` runs the same code, which prints to nobody there
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_shows_what_its_code_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = list(run(DOCS / f"{name}.md"))
    assert len(blocks) == SHOWN[name]
    for printed, shown in blocks:
        (words, numbers), (words_shown, numbers_shown) = map(without_numbers, (printed, shown))
        assert words == words_shown
        assert numbers == pytest.approx(numbers_shown)


@pytest.mark.slow  # inductor
def test_the_page_on_two_runs_names_the_module_and_its_exit_codes_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (_, _), (compiled, _), (changed, _), (engines, shown) = run(
        DOCS / "how-to" / "where-two-runs-part.md"
    )
    assert compiled.endswith("\nexit code 0")
    assert "numbers part by more than rounding at step 1 in 'down' OutputNorm" in changed
    assert changed.endswith("\nexit code 1")
    assert engines == shown


def test_the_page_on_verifying_shows_what_its_code_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = list(run(DOCS / "how-to" / "verify.md"))
    assert len(blocks) == 4
    for printed, shown in blocks:
        # Costs are the machine's, and so is which last digit is the worst.
        words = [
            re.sub(r"\(\w+ of '.*?'", "(a reading", without_numbers(t)[0]) for t in (printed, shown)
        ]
        assert words[0] == words[1]


def test_the_readme_shows_what_verify_prints(capsys):
    readme = (ROOT / "README.md").read_text("utf-8")
    first = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0].partition("instrumented =")[0]
    code, shown = re.search(
        r"```python\n([^`]*taiyi_fx\.verify[^`]*)```\s+```text\n(.*?)\n```", readme, re.DOTALL
    ).groups()
    exec(first + code, {})
    lines = [without_numbers(text)[0].splitlines() for text in (capsys.readouterr().out, shown)]
    assert [line[:40] for line in lines[0]] == [line[:40] for line in lines[1]]


def test_the_readme_shows_what_checking_a_step_prints(capsys, tmp_path):
    readme = (ROOT / "README.md").read_text("utf-8")
    first = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0].partition("optimizer =")[0]
    code, shown = re.search(
        r"```python\n([^`]*taiyi_fx\.step_check[^`]*)```\s+```text\n(.*?)\n```", readme, re.DOTALL
    ).groups()
    file = tmp_path / "train.py"
    file.write_text(first + code, "utf-8")
    exec(compile(first + code, file, "exec"), {})
    texts = [" ".join(without_numbers(t)[0].split()) for t in (capsys.readouterr().out, shown)]
    assert texts[0] == texts[1]
