import copy

import pytest

from tests.pictures.report import fake
from tests.pictures.report.conftest import wait_until


def index_of(gpt, module):
    items = gpt[0]["outline"]["items"]
    return next(k for k, item in enumerate(items) if item.get("module") == module)


def box(page, index):
    return page.locator(f'#graph [data-item="{index}"]')


def wait_for_box(page, index, expanded):
    page.wait_for_selector(f'#graph [data-item="{index}"][aria-expanded="{expanded}"]')


@pytest.fixture
def rest(gpt):
    items = gpt[0]["outline"]["items"]
    return next(k for k, item in enumerate(items) if item["kind"] == "rest")


def test_a_click_selects_a_box_and_shows_its_curves(show, gpt):
    page = show(*gpt)
    index = index_of(gpt, "h.0.attn.proj")
    box(page, index).click()
    assert page.inner_text("#curves-title") == "Curves of h.0.attn.proj"
    assert "selected" in box(page, index).get_attribute("class")
    wait_until(page, "document.querySelectorAll('#charts .chart').length === 6")
    page.click("#more-charts")
    wait_until(page, "document.querySelectorAll('#charts .chart').length === 19")


def test_ctrl_and_a_click_add_a_box(show, gpt):
    page = show(*gpt)
    box(page, index_of(gpt, "wte")).click()
    box(page, index_of(gpt, "h.0.ln_1")).click(modifiers=["Control"])
    assert page.inner_text("#curves-title") == "Curves of wte, h.0.ln_1"
    box(page, index_of(gpt, "wte")).click(modifiers=["Control"])
    assert page.inner_text("#curves-title") == "Curves of h.0.ln_1"


def test_a_closed_box_shows_the_curves_of_all_that_stand_in_it(show, gpt, rest):
    page = show(*gpt)
    box(page, rest).click()
    page.wait_for_selector("#charts .caption:has-text('8 of 77 modules')")
    assert "h.7.mlp.c_fc" in page.inner_text("#charts .legend >> nth=0")


def test_a_double_click_opens_and_the_title_closes(show, gpt, rest, screenshots):
    page = show(*gpt)
    box(page, rest).dblclick()
    wait_for_box(page, rest, "true")
    assert box(page, index_of(gpt, "h.3")).get_attribute("aria-expanded") == "false"
    page.screenshot(path=screenshots / "opened.png")
    box(page, rest).dblclick()
    wait_for_box(page, rest, "false")
    assert box(page, index_of(gpt, "h.3")).count() == 0


def test_the_button_of_a_box_opens_it(show, gpt, rest):
    page = show(*gpt)
    box(page, rest).locator(".toggle").click()
    wait_for_box(page, rest, "true")
    box(page, rest).locator(".toggle").click()
    wait_for_box(page, rest, "false")


def test_keys_open_close_select_and_move(show, gpt, rest):
    page = show(*gpt)
    box(page, rest).focus()
    page.keyboard.press("Enter")
    wait_for_box(page, rest, "true")
    page.keyboard.press("e")
    wait_for_box(page, rest, "false")
    page.keyboard.press(" ")
    assert page.inner_text("#curves-title") == "Curves of 1 … 11"
    page.keyboard.press("ArrowDown")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("ln_f")


def test_what_is_acted_on_stays_in_place(show, gpt, rest):
    page = show(*gpt)
    page.evaluate("document.querySelector('#graph-pane').scrollTop = 500")
    proj = box(page, index_of(gpt, "h.0.attn.proj")).locator(".body")
    mlp = index_of(gpt, "h.0.mlp")
    title = box(page, mlp)
    title.scroll_into_view_if_needed()
    before = page.locator(f'[data-frame="{mlp}"]').bounding_box()
    title.locator(".toggle").click()
    wait_for_box(page, mlp, "false")
    after = title.locator(".body").first.bounding_box()
    assert after["y"] == pytest.approx(before["y"], abs=3)
    assert proj.count() == 1


def test_depth_opens_levels(show, gpt):
    page = show(*gpt)
    page.select_option("#depth", "1")
    page.wait_for_selector("#box-count:has-text('9 boxes')")
    page.select_option("#depth", "3")
    wait_until(page, "parseInt(document.querySelector('#box-count').textContent) > 9")
    page.select_option("#depth", "auto")
    page.wait_for_selector("#box-count:has-text('23 boxes')")


def test_only_probed_joins_edges_through_what_vanishes(show, gpt):
    page = show(*gpt)
    page.check("#only-probed")
    wait_until(page, "document.querySelectorAll('#graph .box:not(.probed)').length === 0")
    assert page.locator("#graph .box").count() == 11
    source, target = index_of(gpt, "wte"), index_of(gpt, "h.0.ln_1")
    edges = page.locator(f'.edge[data-source="{source}"][data-target="{target}"]')
    assert edges.count() == 1


def test_shapes_stand_only_where_a_cluster_is_cut(show, gpt):
    page = show(*gpt)
    told = page.locator(".edge:has(text)")
    assert told.count() == 7
    inside = index_of(gpt, "h.0.mlp.c_fc"), index_of(gpt, "h.0.mlp.gelu")
    plain = page.locator(f'.edge[data-source="{inside[0]}"][data-target="{inside[1]}"]')
    assert plain.locator("text").count() == 0
    assert plain.locator("title").text_content() == "8×64×192"


def test_the_first_nan_is_marked_in_whatever_box_stands_for_it(show, gpt, rest):
    page = show(*gpt)
    assert box(page, rest).locator(".alarm").count() == 1
    assert "first NaN/Inf, step 7,600" in box(page, rest).text_content()
    page.click("#event-rows tr:nth-child(2) button")
    site = index_of(gpt, "h.7.mlp.c_fc")
    page.wait_for_selector(f'#graph [data-item="{site}"].selected .alarm')
    assert page.inner_text("#curves-title") == "Curves of h.7.mlp.c_fc"


def test_very_many_boxes_are_asked_about_first(show):
    outline, opened = fake.gpt(40)
    made, chunks = fake.run(outline, columns=40)
    rest = next(k for k, item in enumerate(outline.items) if item["kind"] == "rest")
    inside = range(rest + 1, len(outline.items))
    page = show(fake.header([made], outline, [*opened, *inside]), chunks)
    box(page, rest).dblclick()
    page.wait_for_selector("#graph-notice:has-text('That shows 607 boxes')")
    page.click("#graph-notice button:has-text('Leave')")
    assert box(page, rest).get_attribute("aria-expanded") == "false"
    box(page, rest).dblclick()
    page.click("#graph-notice button:has-text('Show')")
    page.wait_for_selector("#box-count:has-text('607 boxes')")


def test_zoom_and_fit(show, gpt):
    page = show(*gpt)
    width = "Number(document.querySelector('#graph svg').getAttribute('width'))"
    before = page.evaluate(width)
    page.click("#zoom-in")
    assert page.evaluate(width) == pytest.approx(before * 1.25)
    page.select_option("#depth", "1")
    page.wait_for_selector("#box-count:has-text('9 boxes')")
    page.click("#zoom-fit")
    fits = page.evaluate(
        "document.querySelector('#graph svg').getBoundingClientRect().height"
        " <= document.querySelector('#graph-pane').clientHeight + 1"
    )
    assert fits


def test_values_follow_the_mode(show, gpt):
    page = show(*gpt)
    name = index_of(gpt, "h.0.attn.proj")
    before = box(page, name).text_content()
    page.click("#modes button:has-text('eval')")
    wait_until(
        page,
        f"!document.querySelector(`[data-item='{name}']`).textContent.includes('OutputGradRMS0')",
    )
    assert box(page, name).text_content() != before
    assert "OutputGradRMS–" in box(page, name).text_content()


def test_a_closed_box_counts_its_marks_in_alert_of_the_mode_shown(show):
    outline, _ = fake.gpt()
    made, chunks = fake.run(outline, columns=20)
    for series in made["series"]:
        series["state"] = "ok"
    own = [s for s in made["series"] if s["module"] == "h.0.mlp.c_fc"]
    for series in own:
        if series["quantity"] == "OutputRMS":
            series["state"] = "alert"
    parts = [
        {**s, "quantity": f"OutputRMS.{k}"} for k in "ab" for s in own if s["state"] == "alert"
    ]
    unmarked = {**own[0], "quantity": "logged", "state": "alert"}
    made["series"] += [*parts, unmarked]
    page = show(fake.header([made], outline, [0]), chunks)
    closed = next(k for k, item in enumerate(outline.items) if item["kind"] == "container")
    assert "! 1 flagged" in box(page, closed).text_content()
    for series in made["series"]:
        if series["mode"] == "train":
            series["state"] = "ok"
    page = show(fake.header([made], outline, [0]), chunks)
    page.click("#modes button:has-text('train')")
    wait_until(
        page, f"!document.querySelector(`[data-item='{closed}']`).textContent.includes('flagged')"
    )
    page.click("#modes button:has-text('eval')")
    wait_until(
        page,
        f"document.querySelector(`[data-item='{closed}']`).textContent.includes('! 1 flagged')",
    )


ZOOM = """() => {
  const picture = document.querySelector('#graph svg');
  return Number(picture.getAttribute('width')) / picture.viewBox.baseVal.width;
}"""


def test_the_zoom_is_fitted_anew_until_it_is_set_by_hand(show, gpt):
    page = show(*gpt, viewport={"width": 1000, "height": 900})
    before = page.evaluate(ZOOM)
    page.select_option("#depth", "1")
    page.wait_for_selector("#box-count:has-text('9 boxes')")
    closed = page.evaluate(ZOOM)
    assert closed > before
    page.click("#zoom-in")
    by_hand = page.evaluate(ZOOM)
    page.select_option("#depth", "auto")
    page.wait_for_selector("#box-count:has-text('23 boxes')")
    assert page.evaluate(ZOOM) == pytest.approx(by_hand)


def test_fit_shows_all_of_a_high_graph(show, gpt):
    page = show(*gpt, viewport={"width": 1600, "height": 500})
    page.click("#zoom-fit")
    width, height, *pane = page.evaluate(
        "(() => { const { width, height } = document.querySelector('#graph svg')"
        ".getBoundingClientRect(), pane = document.querySelector('#graph-pane');"
        " return [width, height, pane.clientWidth, pane.clientHeight]; })()"
    )
    assert (width <= pane[0] + 1, height <= pane[1] + 1) == (True, True)
    assert max(width / pane[0], height / pane[1]) > 0.97


def test_a_high_graph_has_a_map_that_moves_it(show, gpt):
    page = show(*gpt, viewport={"width": 1600, "height": 600})
    assert page.is_visible("#minimap")
    size = page.locator("#minimap").bounding_box()
    top = "document.querySelector('#graph-pane').scrollTop"
    page.mouse.click(size["x"] + size["width"] / 2, size["y"] + size["height"] - 3)
    low = page.evaluate(top)
    page.mouse.click(size["x"] + size["width"] / 2, size["y"] + 3)
    assert page.evaluate(top) == 0 < low
    page.click("#zoom-fit")
    assert not page.is_visible("#minimap")


def test_a_closed_box_has_the_values_of_its_module(show, gpt):
    header, chunks = copy.deepcopy(gpt)
    run = header["runs"][0]
    container = next(k for k, i in enumerate(header["outline"]["items"]) if i["label"] == "mlp")
    item = header["outline"]["items"][container]
    item["marks"] = {"forward": [["OutputRMS", ""]]}
    row = next(s for s in run["series"] if s["module"] == "h.0.mlp.c_fc")
    run["series"].append({**row, "module": item["module"], "latest": 0.321, "state": "ok"})
    header["open"] = [k for k in header["open"] if k != container]
    text = box(show(header, chunks), container).text_content()
    assert "OutputRMS0.321" in text


def legend(page):
    page.click("#legend summary")
    return page.locator("#legend li:visible").all_inner_texts()


def test_the_legend_has_what_occurs(show, gpt):
    header, chunks = gpt
    told = legend(show(*gpt))
    assert "linear" in told
    assert "convolution" not in told
    assert not any("edit" in text for text in told)
    assert "double border: identical blocks" in told
    assert "red border, !: something is flagged" in told
    run = {**header["runs"][0]}
    run["series"] = [{**series, "state": "ok"} for series in run["series"]]
    calm = legend(show({**header, "runs": [run]}, chunks))
    assert not any("!" in text for text in calm)


def test_a_box_shows_first_what_is_flagged_then_what_tells_most(show, gpt):
    header, chunks = copy.deepcopy(gpt)
    told = {"OutputMean": 0.3, "OutputStd": 1.0, "OutputKurtosis": 0.2, "OutputEffectiveRank": 3.0}
    for series in header["runs"][0]["series"]:
        if series["module"] == "head":
            series["score"] = told.get(series["quantity"], 0)
            is_bad = series["quantity"] == "OutputAbsMax" and series["mode"] == "train"
            series["state"] = "warn" if is_bad else "ok"
    page = show(header, chunks)
    rows = box(page, index_of(gpt, "head")).locator(".row:has(.sign.forward)")
    shown = ["OutputAbsMax", "OutputEffectiveRank", "OutputStd"]
    assert [row.split(" ")[0].strip("▼0123456789.~") for row in rows.all_text_contents()] == shown
    assert rows.last.text_content().endswith(" + 5 more")


def test_a_count_of_nothing_comes_after_what_stays_as_it_is(show, gpt):
    header, chunks = copy.deepcopy(gpt)
    for series in header["runs"][0]["series"]:
        is_count = series["quantity"] == "OutputRMS"
        series |= {"state": "ok", "health": "counts_non_finite" if is_count else ""}
    rows = box(show(header, chunks), index_of(gpt, "head")).locator(".row:has(.sign.forward)")
    assert "OutputMean" in rows.first.text_content()


def test_of_what_tells_about_as_much_boxes_show_the_same(show, gpt):
    header, chunks = copy.deepcopy(gpt)
    told = {"OutputRMS": 0.02, "OutputMean": 0.1, "OutputStd": 0.2, "OutputAbsMax": 0.15}
    for series in header["runs"][0]["series"]:
        series["state"], series["score"] = "ok", told.get(series["quantity"], 0)
    rows = box(show(header, chunks), index_of(gpt, "head")).locator(".row:has(.sign.forward)")
    names = [row.strip("▼0123456789. +more−").split("0")[0] for row in rows.all_text_contents()]
    assert names == ["OutputMean", "OutputStd", "OutputAbsMax"]
