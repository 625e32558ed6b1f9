"""Several runs side by side: each shown, and over the first; modules aligned; what differs first."""

import copy

import pytest

from tests.pictures.report import fake
from tests.pictures.report.conftest import wait_until
from tests.pictures.report.test_graph import index_of


@pytest.fixture(scope="module")
def three():
    """A page of three runs, of which the third has other names, aligned with the first's."""
    outline, opened = fake.gpt()
    runs, chunks = [], {}
    for place, name in enumerate(("one", "two", "three")):
        made, more = fake.run(
            outline, name=name, seed=place, drift=1.0 + place, columns=80, first_chunk=len(chunks)
        )
        runs.append(made)
        chunks |= more
    for series in runs[2]["series"]:
        series["aligned"] = series["module"]
        series["module"] = f"other.{series['module']}"
    header = fake.header(runs, outline, opened)
    told = {"module": "head", "quantity": "OutputStd", "mode": "train", "place": 2}
    header["differences"] = [
        {**told, "factor": 2.5, "spread": 1.02},
        *[{**told, "module": f"h.{i}.mlp.c_fc", "factor": 0.5, "spread": 1.2} for i in range(8)],
    ]
    return header, chunks


def test_each_run_and_each_over_the_first_are_shown(show, three):
    page = show(*three)
    assert page.inner_text("#run-name") == "one, two and three"
    choices = page.locator("#compared button").all_inner_texts()
    assert choices == ["one", "two", "three", "two / one", "three / one"]
    page.click("#compared button:has-text('three / one')")
    page.wait_for_selector("#heat-title:text-is('OutputRMS: three over one')")
    page.click("#compared button:text-is('two')")
    page.wait_for_selector("#heat-title:has-text('|OutputRMS|')")


def test_modules_of_other_names_share_the_rows_of_those_they_are_like(show, three):
    page = show(*three)
    page.click("#heat-table summary")
    page.wait_for_selector("#heat-table tbody tr")
    rows = page.locator("#heat-table tbody th").all_inner_texts()
    assert "head" in rows
    assert not any(row.startswith("other.") for row in rows)
    names = page.locator("#charts .legend tbody tr").all_inner_texts()
    assert sum("(three)" in name for name in names) == 8
    assert any("other." in name for name in names)


def test_what_differs_most_comes_first_and_leads_there(show, three):
    page = show(*three)
    rows = page.locator("#difference-rows tr")
    assert rows.count() == 5
    told = rows.first.inner_text().split("\t")
    assert [text for text in told if text] == [
        "OutputStd of head",
        "× 2.5",
        "within a group × 1.02",
        "three",
    ]
    page.click("#more-differences")
    assert rows.count() == 9
    rows.first.locator("button").click()
    page.wait_for_selector(f'#graph [data-item="{index_of(three, "head")}"].selected')
    page.wait_for_selector("#heat-title:text-is('OutputStd: three over one')")


def test_one_run_has_no_differences(show, gpt):
    assert not show(*gpt).is_visible("#differences")


def test_a_finding_of_another_run_shows_that_run(show, three):
    header, chunks = copy.deepcopy(three)
    found = fake.finding("other.head", quantity="OutputStd")
    header["runs"][2]["findings"] = [found]
    page = show(header, chunks)
    assert "(three)" in page.inner_text("#finding-list")
    page.click("#finding-list .what")
    page.wait_for_selector(f'#graph [data-item="{index_of(three, "head")}"].selected')
    pressed = "document.querySelector('#compared [aria-pressed=true]').textContent"
    wait_until(page, f"{pressed} === 'three'")
