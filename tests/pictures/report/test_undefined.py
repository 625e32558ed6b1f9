"""NaN of zero by zero on a page: no value, and no failure."""

import pytest
import torch

import taiyi_fx
from tests.pictures.report.conftest import wait_until

QUANTITIES = ["WeightGradAgreement", "WeightGradNorm"]


def trained(path, given):
    """A page of a model whose first layer has a gradient of zero: its direction has no value."""
    last = torch.nn.Linear(4, 2)
    torch.nn.init.zeros_(last.weight)
    model = taiyi_fx.instrument(torch.nn.Sequential(torch.nn.Linear(4, 4), last), {"*": QUANTITIES})
    for step in range(4):
        model(given).sum().backward()
        model.monitor.track(step)
        model.zero_grad()
    return taiyi_fx.report(model, path)


@pytest.fixture
def page(show_file, tmp_path):
    path = trained(tmp_path / "page.html", torch.ones(8, 4))
    page = show_file(path)
    page.click("#tabs button:has-text('WeightGradAgreement')")
    wait_until(page, "document.querySelector('#heat-title').textContent.includes('Agreement')")
    return page


def test_a_box_and_a_legend_say_that_there_is_no_value(page):
    box = page.locator("#graph .box", has_text="Agreement").first
    assert "NaN" not in box.text_content()
    assert "WeightGradAgreement: – (no value: 0/0)" in box.locator("title").first.text_content()
    row = box.locator(".row", has_text="WeightGradAgreement")
    assert row.locator(".value.none").text_content() == "–"
    values = page.locator("#charts .legend .value").all_inner_texts()
    assert [value.split()[0] for value in values[:2]] == ["–", "1"]


def test_a_heat_map_has_a_colour_of_its_own_for_no_value(page):
    assert page.is_visible("#key-undefined")
    assert page.is_hidden("#key-nan")
    page.click("#heat-table summary")
    row = page.locator("#heat-table tbody tr").first.inner_text().split("\t")
    assert row[1] == "–"
    assert row[4] == "4 × 0/0"
    box = page.locator("#heat-overlay").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 16)
    wait_until(page, "document.querySelector('#heat-reading').textContent !== ''")
    assert page.inner_text("#heat-reading").endswith("no value: 0/0")
    legend = page.locator("#charts .legend .value").first
    assert legend.inner_text() == "–"  # at the cursor, too


def test_nan_that_went_in_stays_nan(show_file, tmp_path):
    page = show_file(trained(tmp_path / "page.html", torch.full((8, 4), torch.nan)))
    page.click("#tabs button:has-text('WeightGradAgreement')")
    wait_until(page, "document.querySelector('#heat-title').textContent.includes('Agreement')")
    assert page.is_visible("#key-nan")
    assert page.is_hidden("#key-undefined")
