"""Labels of scales: clear of each other, and with digits enough to differ."""

import numpy as np
import pytest

from tests.pictures.report import fake
from tests.pictures.report.conftest import wait_until


def one_field(mean):
    """A page of one quantity with these numbers: rows of modules, columns of steps."""
    outline = fake.Outline()
    root = outline.add("module", "", -1, class_name="Net")
    names = [f"layer{row}" for row in range(len(mean))]
    for name in names:
        told = {"class_name": "Linear", "module": name, "marks": {"forward": [["Level", ""]]}}
        outline.add("module", name, root, **told)
    return fake.page_of(names, mean, quantity="Level", outline=outline)


def bar(page):
    told = page.get_attribute("#heat-bar", "aria-label")
    return told.removeprefix("Colour bar: ").split(", ")


def test_a_field_of_one_value_has_one_label(show):
    page = show(*one_field(np.full((2, 10), 0.25)))
    assert bar(page) == ["0.25"]
    page.click("#colour-scale button:has-text('linear')")
    wait_until(page, "document.querySelector('#heat-title').textContent === 'Level'")
    assert bar(page) == ["0.25"]


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_labels_that_are_close_have_digits_enough_to_differ(show, scale):
    page = show(*one_field(np.linspace(56.101, 56.124, 40).reshape(2, 20)))
    page.click(f"#colour-scale button:has-text('{scale}')")
    wait_until(page, "document.querySelector('#heat-bar').ariaLabel.includes('56.10')")
    labels = bar(page)
    assert len(set(labels)) == len(labels) >= 2
    assert all("56.1" in label for label in labels)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([0.25, 0.25], "0.25"),
        ([2.291, 2.294], "2.291 … 2.294"),
        ([1.0, 200.0], "1 … 200"),
    ],
)
def test_a_curve_s_least_and_most_differ_as_texts_where_they_differ(show, values, bounds):
    page = show(*one_field(np.array([values])))
    assert page.locator("#charts .legend tbody td").last.inner_text() == bounds


def test_labels_of_a_bar_stand_clear_of_each_other(show):
    page = show(*one_field(np.geomspace(1.1e-4, 9.3e4, 40).reshape(2, 20)))
    gaps = page.evaluate(
        """() => {
          const pen = document.createElement("canvas").getContext("2d");
          pen.font = "11px system-ui";
          const value = (power) => 10 ** power;
          const labels = (powers) => taiyi.numerals(powers.map(value));
          const all = [];
          for (let low = -5; low < 4; low += 0.37)
            for (let span = 0.001; span < 9; span *= 1.9) {
              const limits = [low, low + span];
              const ticks = taiyi.logTicks(limits.map(value), 4).map(Math.log10);
              const told = taiyi.barLabels(pen, { limits, ticks, labels }, [2, 258]);
              const ends = told.map(({ x, text }) => [x, pen.measureText(text).width / 2]);
              ends.slice(1).forEach(([x, half], k) => all.push(x - half - ends[k][0] - ends[k][1]));
            }
          return all;
        }"""
    )
    assert len(gaps) > 300
    assert min(gaps) > 3


def test_numbers_of_a_scale_differ_as_texts(show):
    page = show(*one_field(np.full((1, 3), 1.0)))
    texts = "values => taiyi.numerals(values)"
    assert page.evaluate(texts, [56.1, 56.12]) == ["56.10", "56.12"]
    assert page.evaluate(texts, [0, 0.5, 1]) == ["0", "0.5", "1"]
    assert page.evaluate(texts, [123456, 123457]) == ["1.23456e5", "1.23457e5"]
    assert page.evaluate(texts, [1000.5, 1000.6]) == ["1000.5", "1000.6"]


def test_without_a_quantity_there_is_no_title(show):
    header, _ = one_field(np.full((1, 3), 1.0))
    header["runs"][0] |= {"series": [], "chunks": []}
    page = show(header, {})
    assert page.text_content("#heat-title") == ""


def test_exact_zeros_have_a_colour_of_their_own_on_a_log_scale(show):
    mean = np.geomspace(0.01, 10, 40).reshape(2, 20)
    mean[0, :10] = 0
    page = show(*one_field(mean))
    assert page.is_visible("#key-zero")
    colours = """() => {
        const canvas = document.querySelector('#heat-canvas');
        const { width, height } = canvas.getBoundingClientRect();
        const ratio = canvas.width / width;
        const area = taiyi.areaOf(width, 8, height - 34);
        const y = (area.top + 0.25 * area.height) * ratio;
        const row = canvas.getContext('2d').getImageData(area.left * ratio, y, area.width * ratio, 1);
        const at = (x) => [...row.data.slice(4 * Math.floor(x * row.width)).slice(0, 4)];
        return [at(0.2), at(0.55)];
    }"""
    zero, least = page.evaluate(colours)
    assert zero == [217, 205, 242, 255]
    assert least != zero
    page.click("#colour-scale button:has-text('linear')")
    wait_until(page, "document.querySelector('#heat-title').textContent === 'Level'")
    assert page.is_hidden("#key-zero")


def test_a_latest_number_of_long_ago_says_its_step(show):
    header, chunks = one_field(np.array([[1.0, 2, 3], [4.0, 5, 6]]))
    series = header["runs"][0]["series"]
    series.append({**series[1], "module": "other", "quantity": "Late", "last": 150})
    page = show(header, chunks)
    page.wait_for_selector("#charts .legend .value:has-text('3 (step 2)')")
    title = page.locator("#graph .box title").first.text_content()
    assert "Level: 3 at step 2" in title
