"""Pages that answer one question each: their code runs, and prints what they show."""

import pytest

from tests.docs.pages import DOCS, run, without_numbers

SHOWN = {
    "how-to/first-nan": 5,
    "how-to/large-models": 4,
    "how-to/amp-and-accumulation": 2,
    "how-to/compile": 3,
    "how-to/own-passes": 3,
    "how-to/own-writers": 4,
    "reference/configuration": 6,
}
"""Pages, and how many blocks of code each has."""


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_shows_what_its_code_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = list(run(DOCS / f"{name}.md"))
    assert len(blocks) == SHOWN[name]
    for printed, shown in blocks:
        (words, numbers), (words_shown, numbers_shown) = map(without_numbers, (printed, shown))
        assert words == words_shown
        assert numbers == pytest.approx(numbers_shown)
