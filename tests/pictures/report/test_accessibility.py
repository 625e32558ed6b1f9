import itertools
import math

import pytest

from tests.pictures.report.conftest import wait_until

TEXTS = [
    *[
        (ink, ground)
        for ink in ("text", "muted", "accent")
        for ground in ("ground", "surface", "raised")
    ],
    *[(ink, "chip") for ink in ("ok", "warn", "alert", "text", "muted")],
    *[(ink, "surface") for ink in ("ok", "warn", "alert")],
    ("alert", "alert-soft"),
    ("warn", "warn-soft"),
    ("text", "warn-soft"),
    ("text", "accent-soft"),
    ("muted", "accent-soft"),
    ("on-accent", "accent"),
    *[
        ("on-sign", f"sign-{name}")
        for name in ("forward", "backward", "parameters", "edits", "alert", "warn")
    ],
    *[
        (ink, ground)
        for ink in ("text", "muted")
        for ground in (
            "box",
            "convolution",
            "linear",
            "attention",
            "norm",
            "recurrent",
            "embedding",
            "activation",
            "pooling",
            "dropout",
            "loss",
            "cluster-0",
            "cluster-1",
            "cluster-2",
            "cluster-3",
        )
    ],
    *[(ink, f"cluster-{depth}") for ink in ("alert", "warn") for depth in range(4)],
]
LINES = [(f"line-{k}", "surface") for k in range(8)]
BORDERS = [(ink, "ground") for ink in ("probed", "alert-line", "warn-line")]
BORDERS += [(ink, f"cluster-{depth}") for ink, _ in BORDERS for depth in range(4)]


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_their_ground(show, gpt, theme):
    page = show(*gpt, color_scheme=theme)
    ink = "name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()"
    names = {name for pair in TEXTS + LINES + BORDERS for name in pair}
    colours = {name: page.evaluate(ink, name) for name in names}
    ratios = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in TEXTS + LINES}
    assert {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < 4.5} == {}
    borders = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in BORDERS}
    assert {pair: round(ratio, 2) for pair, ratio in borders.items() if ratio < 3} == {}


def lab(colour):
    """A colour in CIELAB, in which distances are those that the eye sees."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    shares = [
        sum(k * p for k, p in zip(row, linear, strict=True)) / w
        for row, w in zip(to_xyz, white, strict=True)
    ]
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in shares)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_curves_are_far_from_each_other(show, gpt, theme):
    page = show(*gpt, color_scheme=theme)
    inks = page.evaluate("taiyi.lineInks()")
    pairs = itertools.combinations(inks, 2)
    near = {(a, b) for a, b in pairs if math.dist(lab(a), lab(b)) < 30}
    assert (len(set(inks)), near) == (8, set())


def test_all_that_takes_focus_has_a_name(show, two_runs):
    page = show(*two_runs)
    nameless = page.evaluate(
        """() => {
          const all = document.querySelectorAll(
            "a, button, select, input, summary, [tabindex], [role=button]");
          const name = (e) => e.getAttribute("aria-label")
            || (e.getAttribute("aria-labelledby")
                && document.getElementById(e.getAttribute("aria-labelledby")).textContent)
            || e.closest("label")?.textContent || e.textContent;
          return [...all].filter((e) => !e.closest('[hidden]') && !name(e)?.trim()).map((e) => e.outerHTML.slice(0, 120));
        }"""
    )
    assert nameless == []


def test_focus_goes_from_head_to_graph_to_panels(show, gpt):
    page = show(*gpt)
    page.locator("#graph [data-item]").first.focus()
    page.evaluate("document.activeElement.blur()")
    page.focus(".skip")
    seen = []
    for _ in range(40):
        home = "document.activeElement.closest('header, #model, #border, #panels, body')"
        seen.append(page.evaluate(f"{home}.id || {home}.tagName.toLowerCase()"))
        page.keyboard.press("Tab")
    order = list(dict.fromkeys(seen))
    assert order[:5] == ["body", "header", "model", "border", "panels"]
    graph = [k for k, place in enumerate(seen) if place == "model"]
    assert len(graph) < 12  # the graph is one stop, not one for each box


def test_boxes_say_what_they_are_and_in_which_state(show, gpt):
    page = show(*gpt)
    spoken = page.locator("#graph .box").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert any(
        text.startswith("proj · Linear, 8 forward quantities, 5 backward") for text in spoken
    )
    rest = next(text for text in spoken if text.startswith("1 … 11 · Block × 11"))
    assert "alerts" in rest
    assert "first NaN/Inf, step 7,600" in rest


def test_landmarks_and_language_are_there(show, gpt):
    page = show(*gpt)
    assert page.get_attribute("html", "lang") == "en"
    for landmark in ("header", "main", "nav", "[role=search]", "h1", "#model[aria-labelledby]"):
        assert page.locator(landmark).count() == 1, landmark


def test_the_heat_map_is_there_as_a_table_too(show, gpt):
    page = show(*gpt)
    page.click("#heat-table summary")
    wait_until(page, "document.querySelectorAll('#heat-table tbody tr').length > 60")
    row = page.locator("#heat-table tr:has-text('h.7.mlp.c_fc')").inner_text().split("\t")
    assert row[1] == "NaN"
    assert int(row[4]) == 400


def test_help_opens_by_a_key_and_closes(show, gpt, screenshots):
    page = show(*gpt)
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.screenshot(path=screenshots / "help.png")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def test_the_border_moves_by_keys(show, gpt):
    page = show(*gpt)
    width = "document.querySelector('#model').clientWidth"
    before = page.evaluate(width)
    page.focus("#border")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(width) > before
