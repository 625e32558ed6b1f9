"""What is wrong in a run is seen at a glance, and found without a search."""

import copy

import pytest

from tests.pictures.report import fake
from tests.pictures.report.test_graph import box, index_of
from tests.pictures.report.test_panels import heat_area, row_place


@pytest.fixture
def late(gpt):
    """A run of which only one series is flagged, of a quantity far from the first."""
    header, chunks = copy.deepcopy(gpt)
    for series in header["runs"][0]["series"]:
        is_it = (series["module"], series["quantity"]) == (fake.EXPLODING, "UpdateRatio")
        series["state"] = "alert" if is_it else "ok"
    return header, chunks


def test_a_page_starts_with_what_is_in_alert(show, late):
    page = show(*late)
    assert page.locator("#quantity").input_value() == "UpdateRatio"
    assert page.inner_text("#heat-title") == "log₁₀ |UpdateRatio|"
    marked = [text for text in page.locator("#quantity option").all_inner_texts() if "!" in text]
    assert marked == ["UpdateRatio ! 1"]
    assert page.inner_text("#urgent") == "! 1 series flagged"


def test_a_page_without_alerts_starts_with_what_is_warned_of(show, late):
    header, chunks = late
    for series in header["runs"][0]["series"]:
        is_it = (series["module"], series["quantity"]) == ("head", "OutputKurtosis")
        series["state"] = "warn" if is_it else "ok"
    page = show(header, chunks)
    assert page.locator("#quantity").input_value() == "OutputKurtosis"
    assert page.inner_text("#urgent") == "~ 2 series flagged"  # in training and in evaluation


def test_each_press_goes_to_the_next_alert(show, gpt):
    page = show(*gpt)
    site = index_of(gpt, fake.EXPLODING)
    assert box(page, site).count() == 0
    page.click("#urgent")
    page.wait_for_selector(f'#graph [data-item="{site}"].selected')
    assert page.inner_text("#curves-title") == f"Curves of {fake.EXPLODING}"
    assert page.locator("#quantity").input_value() == "OutputRMS"
    page.click("#urgent")
    assert page.locator("#quantity").input_value() == "OutputMean"


def test_a_closed_box_counts_its_warnings(show, late):
    header, chunks = late
    for series in header["runs"][0]["series"]:
        series["state"] = "warn" if series["module"] == "h.2.attn.q" else "ok"
    shown = [s for s in header["runs"][0]["series"] if s["mode"] == "train"]
    count = sum(series["state"] == "warn" for series in shown)
    page = show(header, chunks)
    rest = next(k for k, item in enumerate(header["outline"]["items"]) if item["kind"] == "rest")
    assert f"~ {count}" in box(page, rest).text_content()
    assert f"{count} warnings" in box(page, rest).get_attribute("aria-label")


def test_a_row_of_the_heat_map_leads_to_its_box(show, gpt):
    page = show(*gpt)
    area = heat_area(page)
    place = {"x": area[0] + 40, "y": row_place(gpt, fake.EXPLODING, area)}
    page.locator("#heat-overlay").click(position=place)
    site = index_of(gpt, fake.EXPLODING)
    page.wait_for_selector(f'#graph [data-item="{site}"].selected')


STROKE = "e => getComputedStyle(e).stroke"


def borders(page, index):
    return box(page, index).locator(".body").first.evaluate(STROKE)


def ink(page, name):
    value = (
        "name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()"
    )
    red, green, blue = bytes.fromhex(page.evaluate(value, name).removeprefix("#"))
    return f"rgb({red}, {green}, {blue})"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_borders_are_red_for_alerts_alone(show, late, theme):
    header, chunks = late
    for series in header["runs"][0]["series"]:
        if (series["module"], series["quantity"]) == ("head", "OutputMean"):
            series["state"] = "warn"
    page = show(header, chunks, color_scheme=theme)
    rest = next(k for k, item in enumerate(header["outline"]["items"]) if item["kind"] == "rest")
    assert borders(page, rest) == ink(page, "alert-line")
    assert borders(page, index_of(late, "head")) == ink(page, "warn-line")
    assert borders(page, index_of(late, "wte")) == ink(page, "probed")


def test_a_state_that_no_row_shows_is_told_below_them(show, late):
    header, chunks = late
    name = "h.0.attn.proj"
    own = [s for s in header["runs"][0]["series"] if s["module"] == name and s["mode"] == "train"]
    taken = [s for s in own if s["direction"] == "forward"]
    for series in header["runs"][0]["series"]:
        series["state"] = "ok"
    for series, state in zip(taken[:4], ("alert", "alert", "alert", "warn"), strict=True):
        series["state"] = state
    page = show(header, chunks)
    text = box(page, index_of(late, name)).text_content()
    assert text.endswith("~ 1")


def test_what_is_in_alert_is_among_the_rows_of_a_box(show, late):
    header, chunks = late
    for series in header["runs"][0]["series"]:
        key = (series["module"], series["quantity"])
        series["state"] = "alert" if key == ("head", "OutputKurtosis") else "ok"
    page = show(header, chunks)
    assert "OutputKurtosis" in box(page, index_of(late, "head")).text_content()


def test_what_is_selected_is_shown_by_gravity(show, late):
    header, chunks = late
    for series in header["runs"][0]["series"]:
        key = (series["module"], series["quantity"])
        series["state"] = "warn" if key == ("h.3.mlp.c_fc", "UpdateRatio") else series["state"]
    page = show(header, chunks)
    page.click("#previous")
    rest = next(k for k, item in enumerate(header["outline"]["items"]) if item["kind"] == "rest")
    box(page, rest).click()
    page.wait_for_selector("#charts .chart >> nth=5")
    first = page.locator("#charts .chart").first
    assert first.locator("h3").inner_text().split() == ["UpdateRatio", "!"]
    rows = first.locator(".legend tbody tr")
    assert rows.locator("button").all_inner_texts()[:2] == [fake.EXPLODING, "h.3.mlp.c_fc"]
    values = rows.locator("td.value")
    assert values.nth(0).inner_text() == "NaN !"
    assert values.nth(0).evaluate("e => getComputedStyle(e).color") == ink(page, "alert")
    assert values.nth(1).evaluate("e => getComputedStyle(e).color") == ink(page, "warn")


def test_events_alike_but_for_the_step_are_one_row(show, late):
    header, chunks = late
    alike = [
        {
            "step": step,
            "kind": "warning",
            "module": "wte",
            "text": f"the loss of step {step}: 99 rows",
        }
        for step in range(100, 200)
    ]
    other = {"step": 150, "kind": "warning", "module": "wte", "text": "another one"}
    run = header["runs"][0]
    run["events"] = sorted([*run["events"], *alike, other], key=lambda event: event["step"])
    page = show(header, chunks)
    rows = page.locator("#event-rows tr")
    told = [text.split("\t") for text in rows.all_inner_texts()]
    assert [cells[0] for cells in told] == ["steps 100 to 199 (100 times)", "150", "2,000", "7,600"]
    assert page.inner_text("#event-count") == "103"
    rows.nth(3).locator("td").nth(3).click()
    site = index_of(late, fake.EXPLODING)
    page.wait_for_selector(f'#graph [data-item="{site}"].selected')
