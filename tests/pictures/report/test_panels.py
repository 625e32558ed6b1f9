import copy
import re

import numpy as np
import pytest

from tests.pictures.report import fake
from tests.pictures.report.conftest import wait_until

INK = """([id, x, y]) => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.drawImage(document.getElementById(id), Math.floor(x), Math.floor(y), 1, 1, 0, 0, 1, 1);
  return Array.from(pen.getImageData(0, 0, 1, 1).data);
}"""


def heat_area(page):
    """Left, top, width and height of the map within its canvas."""
    width = page.evaluate("document.querySelector('#heat').clientWidth")
    height = page.evaluate("document.querySelector('#heat-canvas').clientHeight")
    left = min(170, max(64, round(width * 0.19)))
    return left, 8, width - left - 22, height - 34


def by_role(modules):
    """Modules in the order of rows: those of one role beside each other."""
    roles = {name: re.sub(r"\.\d+\.", ".*.", name) for name in modules}
    order = list(dict.fromkeys(roles.values()))
    return sorted(modules, key=lambda name: order.index(roles[name]))


def row_place(gpt, module, area, quantity="OutputRMS"):
    series = [s for s in gpt[0]["runs"][0]["series"] if s["quantity"] == quantity]
    modules = by_role([s["module"] for s in series if s["mode"] == "train"])
    _, top, _, height = area
    return top + (modules.index(module) + 0.5) / len(modules) * height


def hover(page, x, y):
    box = page.locator("#heat-overlay").bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)


def test_the_heat_map_tells_what_is_under_the_pointer(show, gpt):
    page = show(*gpt)
    area = heat_area(page)
    y = row_place(gpt, "h.7.mlp.c_fc", area)
    hover(page, area[0] + area[2] * 0.5, y)
    reading = page.inner_text("#heat-reading")
    assert reading.startswith("h.7.mlp.c_fc · steps 3,9") or reading.startswith(
        "h.7.mlp.c_fc · steps 4,0"
    )
    assert "OutputRMS 0." in reading
    hover(page, area[0] + area[2] - 3, y)
    assert "NaN among the values" in page.inner_text("#heat-reading")


def test_nan_is_striped_and_numbers_are_viridis(show, gpt):
    page = show(*gpt)
    area = heat_area(page)
    y = row_place(gpt, "h.7.mlp.c_fc", area)
    x = area[0] + area[2] - 12
    inks = [page.evaluate(INK, ["heat-canvas", x + k, y])[:3] for k in range(6)]
    assert [214, 0, 50] in inks
    assert [255, 255, 255] in inks
    assert page.is_visible("#key-nan")
    bright = page.evaluate(INK, ["heat-canvas", area[0] + area[2] * 0.9, y])
    assert bright == [253, 231, 37, 255]


def test_a_click_on_a_row_selects_its_box(show, gpt):
    page = show(*gpt)
    area = heat_area(page)
    page.locator("#heat-overlay").click(
        position={"x": area[0] + 40, "y": row_place(gpt, "head", area)}
    )
    assert page.inner_text("#curves-title") == "Curves of head"
    assert page.locator("#graph .selected").get_attribute("aria-label").startswith("head")


def test_the_heat_map_is_read_by_keys(show, gpt):
    page = show(*gpt)
    page.focus("#heat-overlay")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    told = page.inner_text("#announcement")
    assert told.startswith("h.0.ln_1 · step")
    page.keyboard.press("Enter")
    assert page.inner_text("#curves-title") == "Curves of h.0.ln_1"


def test_the_scale_of_colours_changes(show, gpt):
    page = show(*gpt)
    area = heat_area(page)
    place = ["heat-canvas", area[0] + area[2] * 0.1, area[1] + area[3] * 0.5]
    before = page.evaluate(INK, place)
    page.click("#colour-scale button:has-text('linear')")
    page.wait_for_selector("#heat-title:text-is('OutputRMS')")
    assert page.evaluate(INK, place) != before


def test_a_drag_zooms_on_steps_everywhere_and_a_double_click_shows_all(show, gpt, screenshots):
    page = show(*gpt)
    chart = page.locator("#charts .overlay").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    left, _, width, _ = heat_area(page)
    page.mouse.move(box["x"] + left + width * 0.25, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + left + width * 0.5, box["y"] + 60, steps=4)
    page.mouse.up()
    shown = page.inner_text("#shown-steps")
    first, last = (int(word.replace(",", "")) for word in shown.split()[1::2])
    assert (first, last) == (pytest.approx(2000, abs=20), pytest.approx(4000, abs=20))
    page.screenshot(path=screenshots / "zoomed.png")
    chart.dblclick()
    assert page.inner_text("#shown-steps") == ""


def test_a_chart_tells_values_at_the_cursor(show, gpt):
    page = show(*gpt)
    legend = page.locator("#charts .legend").first
    assert legend.locator("th").nth(2).inner_text() == "latest"
    chart = page.locator("#charts .overlay").first
    chart.scroll_into_view_if_needed()
    latest = legend.locator("td.value").all_inner_texts()
    assert "NaN !" in latest
    left, _, width, _ = heat_area(page)
    chart.hover(position={"x": left + width * 0.5, "y": 50})
    assert legend.locator("th").nth(2).inner_text().startswith("step ")
    assert "NaN !" not in legend.locator("td.value").all_inner_texts()


def test_charts_say_what_their_points_are(show, gpt):
    page = show(*gpt)
    assert "20 steps a bin" in page.inner_text("#charts .caption >> nth=0")
    page = show(*fake.report(raw=True, columns=300))
    assert "every number" in page.inner_text("#charts .caption >> nth=0")


def test_a_schedule_that_becomes_rarer_leaves_no_gaps(show):
    rare = [*range(0, 100), *range(100, 1001, 25)]
    mean = np.ones((1, len(rare)))
    page = show(*fake.page_of(["head"], mean, steps=np.array(rare, dtype=float)))
    assert not page.is_visible("#key-absent")


def broken_tensors(gpt):
    """A page of one vector that has NaN and Inf among its elements."""
    header, chunks = copy.deepcopy(gpt)
    run = header["runs"][0]
    series = next(s for s in run["series"] if s["quantity"] == "OutputSpectrum")
    entry = run["chunks"][series["chunk"]]
    packed = bytearray(chunks[entry["id"]])
    values = np.frombuffer(packed, "<f4", offset=len(packed) - 4 * 80 * 64).reshape(80, 64)
    values[40:50], values[60:] = np.nan, np.inf
    chunks[entry["id"]] = bytes(packed)
    series["steps"] = 4000
    return header, chunks


def test_what_is_not_finite_in_a_tensor_is_hatched(show, gpt):
    page = show(*broken_tensors(gpt))
    page.locator("#tensor-canvas").scroll_into_view_if_needed()
    area = heat_area(page)
    places = [(0.56, [214, 0, 50]), (0.9, [240, 110, 0])]
    for share, ink in places:
        x = area[0] + area[2] * share
        inks = [page.evaluate(INK, ["tensor-canvas", x + k, 100])[:3] for k in range(6)]
        assert ink in inks
    overlay = page.locator("#tensor-overlay")
    overlay.hover(position={"x": area[0] + area[2] * 0.56, "y": 100})
    assert page.inner_text("#tensor-reading").endswith("NaN")


def test_a_thinned_tensor_says_what_is_left_out(show, gpt):
    page = show(*broken_tensors(gpt))
    assert page.inner_text("#tensor-note").startswith("80 of 4,000 steps: the first and the last")
    assert "3,920 are left out" in page.inner_text("#tensor-note")
    assert show(*gpt).inner_text("#tensor-note") == "every step"


def test_quantities_are_tabs_where_they_are_few(show, gpt):
    header, chunks = gpt
    run = header["runs"][0]
    few = {"OutputRMS", "OutputStd"}
    kept = [series for series in run["series"] if series["quantity"] in few]
    page = show({**header, "runs": [{**run, "series": kept}]}, chunks)
    page.click("#tabs button:has-text('OutputStd')")
    page.wait_for_selector("#heat-title:has-text('OutputStd')")
    assert page.locator("#tabs button[aria-pressed=true]").inner_text() == "OutputStd ! 2"


def test_keys_step_through_quantities(show, gpt):
    page = show(*gpt)
    page.keyboard.press("]")
    assert page.input_value("#quantity") == "OutputMean"
    page.keyboard.press("[")
    assert page.input_value("#quantity") == "OutputRMS"


def test_search_finds_modules_classes_and_quantities(show, gpt, screenshots):
    page = show(*gpt)
    page.keyboard.press("/")
    page.keyboard.type("7.mlp c_fc")
    assert page.locator("#results li").first.inner_text().startswith("h.7.mlp.c_fc · Linear")
    page.screenshot(path=screenshots / "search.png")
    page.keyboard.press("Enter")
    page.wait_for_selector("#graph .selected .name:text-is('c_fc')")
    assert page.inner_text("#curves-title") == "Curves of h.7.mlp.c_fc"
    page.fill("#search", "gradkurt")
    page.keyboard.press("Enter")
    assert page.input_value("#quantity") == "OutputGradKurtosis"
    page.fill("#search", "layernorm")
    assert page.locator("#results li").count() == 12
    page.fill("#search", "no such thing")
    assert page.inner_text("#results") == "Nothing has that name"


def test_results_of_a_search_go_as_the_field_is_left_and_come_again_with_it(show, gpt):
    page = show(*gpt)
    page.fill("#search", "layernorm")
    assert page.is_visible("#results")
    page.focus("#depth")
    assert not page.is_visible("#results")
    page.focus("#search")
    page.keyboard.press("ArrowDown")
    assert page.locator("#results li[aria-selected=true]").count() == 1


def test_a_click_on_a_result_goes_there(show, gpt):
    page = show(*gpt)
    page.fill("#search", "7.mlp c_fc")
    page.locator("#results li").first.click()
    page.wait_for_selector("#graph .selected .name:text-is('c_fc')")
    wait_until(page, "document.activeElement.matches('#graph [data-item]')")
    assert not page.is_visible("#results")


GO_AND_TYPE_ON = """() => {
  const field = document.getElementById("search");
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  field.value = "gradkurt";
  field.dispatchEvent(new Event("input"));
}"""


def test_who_types_on_while_a_box_is_brought_to_sight_keeps_the_focus(show, gpt):
    page = show(*gpt)
    page.focus("#search")
    page.keyboard.type("7.mlp c_fc")
    page.evaluate(GO_AND_TYPE_ON)
    page.wait_for_selector("#graph .selected .name:text-is('c_fc')")
    page.keyboard.press("Enter")
    assert page.input_value("#quantity") == "OutputGradKurtosis"


def test_tensors_show_the_step_under_the_cursor(show, gpt, screenshots):
    page = show(*gpt)
    assert page.inner_text("#tensor-step") == "OutputSpectrum at step 7,900"
    overlay = page.locator("#tensor-overlay")
    overlay.scroll_into_view_if_needed()
    left, _, width, _ = heat_area(page)
    overlay.hover(position={"x": left + width * 0.5, "y": 100})
    wait_until(
        page,
        "document.querySelector('#tensor-step').textContent.includes('3,9')"
        " || document.querySelector('#tensor-step').textContent.includes('4,0')",
    )
    assert page.inner_text("#tensor-reading").startswith("step ")
    page.screenshot(path=screenshots / "tensors.png")
    page.select_option("#tensor-pick", index=1)
    wait_until(page, "document.documentElement.dataset.decoded === '3'")


def test_events_are_listed_by_step(show, gpt):
    page = show(*gpt)
    rows = page.locator("#event-rows tr")
    assert rows.all_inner_texts()[0].split("\t")[:3] == ["2,000", "warning", "h.3.attn.proj"]
    assert rows.nth(1).inner_text().split("\t")[1] == "NaN/Inf"


def test_two_runs_are_compared(show, two_runs, screenshots):
    page = show(*two_runs)
    page.click("#row-order button:has-text('in order')")
    area = heat_area(page)
    place = ["heat-canvas", area[0] + area[2] * 0.9, area[1] + area[3] * 0.75]
    page.screenshot(path=screenshots / "two-runs.png")
    page.click("#compared button:has-text('second / first')")
    page.wait_for_selector("#heat-title:text-is('OutputRMS: second over first')")
    red, _, blue, _ = page.evaluate(INK, place)
    assert red > blue + 40  # twice as large at the end, in the deeper half
    hover(page, area[0] + area[2] * 0.95, place[2])
    assert "second over first: × " in page.inner_text("#heat-reading")
    page.screenshot(path=screenshots / "ratio.png")
    names = page.locator("#charts .legend tbody tr").all_inner_texts()
    assert sum("(runs/exp2)" in name for name in names) == 8
    assert page.locator("#charts .swatch.dashed").count() == 8


def test_dark_and_light_follow_the_system_and_the_button(show, gpt, screenshots):
    page = show(*gpt, color_scheme="dark")
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "dark"
    page.screenshot(path=screenshots / "dark.png")
    page.click("#theme")
    assert page.evaluate(theme) == "light"
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(100)  # changes between two frames are one
    page.emulate_media(color_scheme="dark")
    wait_until(page, f"{theme} === 'dark'")


def test_on_paper_everything_is_light_and_whole(show, gpt, screenshots):
    page = show(*gpt, color_scheme="dark")
    page.emulate_media(media="print")
    wait_until(page, "document.documentElement.dataset.theme === 'light'")
    cut = page.evaluate(
        "['graph-pane', 'panels'].filter(id => {"
        " const e = document.getElementById(id); return e.scrollHeight > e.clientHeight + 1; })"
    )
    assert cut == []
    assert not page.is_visible("#search")
    page.screenshot(path=screenshots / "print.png", full_page=True)
    page.emulate_media(media="screen")
    wait_until(page, "document.documentElement.dataset.theme === 'dark'")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (800, 1000)])
def test_nothing_is_wider_than_the_window(show, gpt, screenshots, width, height):
    page = show(*gpt, viewport={"width": width, "height": height})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(
        "document.querySelector('#panels').scrollWidth <= "
        "document.querySelector('#panels').clientWidth"
    )
    page.screenshot(path=screenshots / f"{width}.png")
