"""Rows of deep models: by role, with their layers' numbers, chosen by patterns."""

import copy

import numpy as np
import pytest

from tests.pictures.report import fake
from tests.pictures.report.conftest import wait_until

LAYERS = 12


@pytest.fixture(scope="module")
def deep():
    """A page of a quantity of 12 layers of an encoder, of which one stands far out."""
    roles = ("attention.self.query", "attention.output.dense", "output.dense")
    modules = [f"bert.encoder.layer.{i}.{role}" for i in range(LAYERS) for role in roles]
    return fake.page_of(
        modules, np.ones((len(modules), 50)) * np.arange(1, len(modules) + 1)[:, None]
    )


def rows(page):
    if not page.locator("#heat-table table").is_visible():
        page.click("#heat-table summary")
        page.wait_for_selector("#heat-table tbody tr")
    return page.locator("#heat-table tbody th").all_inner_texts()


def test_rows_of_one_role_stand_beside_each_other(show, deep):
    page = show(*deep)
    told = rows(page)
    assert told[:LAYERS] == [f"bert.encoder.layer.{i}.attention.self.query" for i in range(LAYERS)]
    assert len(told) == 3 * LAYERS
    assert page.inner_text("#heat-order").startswith("Rows by role, what was found first")
    page.click("#row-order button:has-text('in order')")
    page.wait_for_selector("#heat-order:has-text('Rows in the order')")
    assert rows(page)[:3] == [s["module"] for s in deep[0]["runs"][0]["series"][:3]]


def test_roles_in_which_something_was_found_come_first(show, deep):
    header, chunks = copy.deepcopy(deep)
    culprit = "bert.encoder.layer.7.output.dense"
    header["runs"][0]["findings"] = [fake.finding(culprit, quantity="OutputRMS", step=4)]
    told = rows(show(header, chunks))
    assert told[:LAYERS] == [f"bert.encoder.layer.{i}.output.dense" for i in range(LAYERS)]
    assert told[LAYERS] == "bert.encoder.layer.0.attention.self.query"


def test_what_all_names_begin_with_is_told_once(show, deep):
    page = show(*deep)
    assert page.inner_text("#heat-order").endswith(", all in bert.encoder.layer.")


ROLES = """names => [taiyi.prefixOf(names), ...names.map((name) => {
  const { role, layer } = taiyi.roleOf(name); return `${role} ${layer}`; })]"""


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["h.0.mlp.0", "h.11.mlp.2"], ["h.", "h.*.mlp.0 0", "h.*.mlp.2 11"]),
        (["0", "2"], ["", "* 0", "* 2"]),
        (["net.fc1", "net.fc2@1"], ["net.", "net.fc1 ", "net.fc2@1 "]),
        (["layer1.0.conv1", "layer2.1.conv1"], ["", "layer*.*.conv1 1.0", "layer*.*.conv1 2.1"]),
        (["", "a.b"], ["", " ", "a.b "]),
    ],
)
def test_a_role_is_a_name_without_the_numbers_of_layers(show, deep, names, told):
    assert show(*deep).evaluate(ROLES, names) == told


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("layer.3.*dense", 2), ("bert.*.3.*dense", 2), ("*.1[01].*", 6), ("query", 12), ("", 36)],
)
def test_rows_are_chosen_by_patterns(show, deep, pattern, count):
    header, chunks = copy.deepcopy(deep)
    run = header["runs"][0]
    run["series"].append({**run["series"][0], "module": "bert.encoder.extra", "quantity": "Other"})
    page = show(header, chunks)
    rows(page)
    page.fill("#pattern", pattern)
    wait_until(page, f"document.querySelectorAll('#heat-table tbody tr').length === {count}")


def test_a_pattern_without_rows_says_so(show, deep):
    page = show(*deep)
    page.fill("#pattern", "*nothing*")
    page.wait_for_selector("#heat-empty:has-text('No row')")
    assert not page.is_visible("#heat")
    page.fill("#pattern", "query")
    page.wait_for_selector("#charts .caption:has-text('8 of 12 modules, 4 left out')")


def test_extremes_are_among_the_curves(show):
    modules = [f"h.{i}.mlp" for i in range(40)]
    mean = np.ones((40, 50))
    mean[17, 20], mean[23, 30] = 700.0, 1e-4
    page = show(*fake.page_of(modules, mean))
    names = page.locator("#charts .legend tbody button").all_inner_texts()
    assert len(names) == 8
    assert {"h.17.mlp", "h.23.mlp"} <= set(names)


def test_what_was_found_is_among_the_curves(show):
    modules = [f"h.{i}.mlp" for i in range(40)]
    header, chunks = fake.page_of(modules, np.ones((40, 50)))
    header["runs"][0]["findings"] = [fake.finding("h.9.mlp", quantity="OutputRMS", step=4)]
    names = show(header, chunks).locator("#charts .legend tbody button").all_inner_texts()
    assert "h.9.mlp" in names


@pytest.mark.parametrize(
    ("quantity", "unit", "mean", "title"),
    [
        ("DeadNeuronRatio", "share", np.linspace(0.001, 0.9, 100).reshape(2, 50), ""),
        ("UpdateRatio", "ratio", np.geomspace(1e-5, 1e-1, 100).reshape(2, 50), "log"),
        ("MeanTID", "ratio", np.linspace(0.5, 1.5, 100).reshape(2, 50), ""),
        ("OutputMean", "", np.linspace(-9, 9, 100).reshape(2, 50), ""),
    ],
)
def test_shares_and_what_lies_close_together_have_linear_axes(show, quantity, unit, mean, title):
    page = show(*fake.page_of(["a", "b"], mean, quantity=quantity, unit=unit))
    expected = f"log₁₀ |{quantity}|" if title else quantity
    assert page.inner_text("#heat-title") == expected
    assert ("log scale" in page.inner_text("#charts .caption")) == bool(title)
    page.click("#colour-scale button:has-text('log')")
    page.wait_for_selector("#heat-title:has-text('log')")
