"""Findings stand at the top of a page, and lead to their places in all views."""

import copy

import pytest

from tests.pictures.report import fake
from tests.pictures.report.conftest import wait_until
from tests.pictures.report.test_graph import box, index_of


def finding(severity="alert", module=fake.EXPLODING, **more):
    return fake.finding(module, severity, **more)


def with_findings(gpt, *found):
    header, chunks = copy.deepcopy(gpt)
    header["runs"][0]["findings"] = list(found)
    return header, chunks


def calm(gpt, flagged=()):
    header, chunks = copy.deepcopy(gpt)
    run = header["runs"][0]
    run["events"] = []
    for series in run["series"]:
        key = (series["module"], series["quantity"])
        series["state"] = "alert" if key in flagged else "ok"
    return header, chunks


@pytest.fixture(scope="session")
def losing():
    return fake.losing()


def test_what_was_found_stands_at_the_top_with_advice(show, gpt, screenshots):
    found = [finding(), finding("warning", "head"), finding("note", "wte", advice="")]
    page = show(*with_findings(gpt, *found))
    assert page.inner_text("#findings-title") == "Findings: 1 alert, 1 warning, 1 note"
    rows = page.locator("#finding-list > li")
    assert rows.count() == 3
    told = f"! alert step 4000: {fake.EXPLODING} is far off since step 4,000 · outlier"
    told += " Look at how it is initialised"
    assert " ".join(rows.nth(0).inner_text().split()) == told
    assert page.inner_text("#urgent") == "! 3 findings"
    page.screenshot(path=screenshots / "findings.png")


def test_a_page_starts_with_its_first_finding(show, gpt):
    page = show(*with_findings(gpt, finding(module="head"), finding("warning", "wte")))
    assert page.inner_text("#heat-title").endswith("|UpdateRatio|")
    site = box(page, index_of(gpt, "head"))
    assert site.locator(".alarm").count() == 1
    assert "outlier, step 4,000" in site.text_content()
    middle = site.bounding_box()["y"] + site.bounding_box()["height"] / 2
    pane = page.locator("#graph-pane").bounding_box()
    assert pane["y"] < middle < pane["y"] + pane["height"]


def test_a_click_goes_to_the_place_in_graph_heat_map_and_curves(show, gpt):
    page = show(
        *with_findings(gpt, finding(module="head"), finding("warning", quantity="OutputStd"))
    )
    page.click("#finding-list > li:nth-child(2) .what")
    site = index_of(gpt, fake.EXPLODING)
    page.wait_for_selector(f'#graph [data-item="{site}"].selected')
    assert page.inner_text("#heat-title").endswith("|OutputStd|")
    assert page.inner_text("#curves-title") == f"Curves of {fake.EXPLODING}"
    wait_until(
        page,
        "document.querySelector('#charts .legend th:nth-child(3)').textContent === 'step 4,000'",
    )


def test_consequences_are_folded_under_their_cause(show, gpt):
    rest = [finding("warning", f"h.{i}.mlp.c_fc") for i in range(8, 11)]
    page = show(*with_findings(gpt, finding(consequences=rest, follow=5)))
    inner = page.locator("#finding-list details li")
    assert not inner.first.is_visible()
    page.click("#finding-list summary")
    assert inner.all_inner_texts()[-1] == "and 2 more"
    inner.nth(1).locator("button").click()
    page.wait_for_selector(f'#graph [data-item="{index_of(gpt, "h.9.mlp.c_fc")}"].selected')


def test_many_findings_are_shown_when_asked_for(show, gpt):
    page = show(*with_findings(gpt, *[finding("warning", f"h.{i}.mlp.c_fc") for i in range(7)]))
    assert page.locator("#finding-list > li").count() == 3
    page.click("#more-findings:has-text('Show all 7 findings')")
    assert page.locator("#finding-list > li").count() == 7


def test_a_healthy_page_says_once_what_was_looked_at(show, gpt):
    page = show(*calm(gpt))
    assert page.inner_text("#findings-title") == "Nothing recognised"
    count = len(gpt[0]["runs"][0]["series"])
    told = page.inner_text("#looked-at")
    assert told.startswith(f"None of the faults that taiyi_fx knows is in {count:,} series of ")
    assert told.endswith("; another one may be.")
    title, muted = page.evaluate(
        """() => ["findings-title", "looked-at"].map(
            (id) => getComputedStyle(document.getElementById(id)).color)"""
    )
    assert title == muted  # nothing is praised
    assert page.inner_text("#no-events") == "No events: no NaN, no Inf, no warning."
    assert not page.is_visible("#urgent")


def test_a_page_without_findings_names_what_is_flagged_all_the_same(show, gpt):
    page = show(*calm(gpt, flagged=[("head", "OutputStd")]))
    assert "flagged as out of the usual: OutputStd of head" in page.inner_text("#looked-at")
    assert page.inner_text("#no-events") == "No events, but some series are flagged."
    page.click("#looked-at button")
    page.wait_for_selector(f'#graph [data-item="{index_of(gpt, "head")}"].selected')


def test_a_page_without_findings_says_what_changed_most(show, gpt):
    header, chunks = calm(gpt)
    moved = {"module": "head", "quantity": "OutputStd", "first": 0.113, "last": 14.8}
    header["runs"][0]["changed"] = [moved]
    page = show(header, chunks)
    told = "What changed most: OutputStd of head from 0.113 to 14.8"
    assert " ".join(page.inner_text("#changed").split()) == told
    page.click("#changed button")
    page.wait_for_selector(f'#graph [data-item="{index_of(gpt, "head")}"].selected')
    assert page.inner_text("#heat-title").endswith("|OutputStd|")


def test_a_page_without_findings_starts_with_what_tells_most(show, losing):
    header, chunks = calm(losing)
    (run,) = header["runs"]
    run["findings"] = []
    for series in run["series"]:
        is_head = series["module"] == "head" and series["quantity"] == "OutputStd"
        series["score"] = 2 if is_head else 9 if series["quantity"] == "loss" else 1
    assert show(header, chunks).inner_text("#heat-title").endswith("|OutputStd|")


def test_a_finding_of_the_loss_starts_with_what_its_module_tells(show, losing):
    header, chunks = copy.deepcopy(losing)
    found = [finding(quantity="loss", opens="", module=""), finding("warning", opens="OutputStd")]
    header["runs"][0]["findings"] = found
    assert show(header, chunks).inner_text("#heat-title").endswith("|OutputStd|")


def test_events_do_not_deny_what_was_found(show, gpt):
    header, chunks = calm(gpt)
    header["runs"][0]["findings"] = [finding()]
    page = show(header, chunks)
    assert page.inner_text("#no-events") == "No events: the findings above say what is wrong."


def strip(page):
    return page.locator("#loss")


def test_the_loss_stands_over_all_views_on_their_steps(show, losing):
    page = show(*losing)
    assert strip(page).is_visible()
    label = page.get_attribute("#loss-canvas", "aria-label")
    assert label == "loss by steps, with 1 spike and 1 finding marked"
    page.locator("#events-section").scroll_into_view_if_needed()
    assert strip(page).bounding_box()["y"] < 300  # it stays in sight
    left = "id => document.getElementById(id).getBoundingClientRect().left"
    width = "id => document.getElementById(id).getBoundingClientRect().width"
    for measure in (left, width):
        assert page.evaluate(measure, "loss-canvas") == page.evaluate(measure, "heat-canvas")


def test_a_page_without_a_loss_has_no_strip(show, gpt):
    assert not strip(show(*gpt)).is_visible()


def test_all_that_a_finding_names_is_marked(show, gpt):
    items = gpt[0]["outline"]["items"]
    named = [index_of(gpt, "head"), items.index(next(i for i in items if i["kind"] == "input"))]
    page = show(*with_findings(gpt, finding("note", "head", boxes=named)))
    for index in named:
        site = box(page, index)
        assert site.locator(".alarm.muted").count() == 1
        assert "i outlier, step 4,000" in site.text_content()


def test_an_event_of_a_finding_is_a_short_link_to_it_with_both_steps(show, gpt):
    header, chunks = with_findings(
        gpt, *[finding(module=f"h.{i}.mlp.c_fc", step=i) for i in range(2, 7)]
    )
    text = "alert {}: step 5: far off. Look at how it is initialised"
    told = [("outlier", "h.5.mlp.c_fc"), ("drift", "head")]
    header["runs"][0]["events"] = [
        {"step": 11 + i, "kind": "finding", "module": module, "text": text.format(kind)}
        for i, (kind, module) in enumerate(told)
    ]
    page = show(header, chunks)
    rows = [row.split("\t") for row in page.locator("#event-rows tr").all_inner_texts()]
    assert rows == [
        ["seen at 11", "finding", "h.5.mlp.c_fc", "outlier since step 5"],
        ["seen at 12", "finding", "head", "drift: not among the findings in the end"],
    ]
    page.click("#event-rows td.text button")
    entry = page.locator("#finding-list > li").nth(3)
    assert entry.is_visible()
    assert entry.evaluate("entry => entry === document.activeElement")
    assert "since step 5, seen at 11" in entry.inner_text()


def test_signs_of_findings_are_explained_where_they_are(show, gpt):
    page = show(*with_findings(gpt, finding()))
    assert page.is_visible("#key-ring")
    caption = page.inner_text("#charts .caption >> nth=0")
    assert "dotted lines: findings, since their steps" in caption
    assert "ticks at the bottom: events" in caption
    assert page.get_attribute("#loss", "title").startswith("▼ a finding")
    page.click("#legend summary")
    assert "a second frame: a finding names it" in page.inner_text("#legend")
    role = page.locator("#row-order button").first
    assert role.get_attribute("title") == "Layers of one role together, as all of blocks.*.mlp"


def test_a_finding_of_which_no_series_is_flagged_does_not_deny_it(show, gpt):
    header, chunks = calm(gpt)
    header["runs"][0]["findings"] = [finding("note")]
    assert show(header, chunks).inner_text("#looked-at") == ""
