"""The page by keys alone."""

import pytest

from tests.pictures.report.conftest import wait_until

FOCUSED = "document.activeElement.ariaLabel ?? ''"


def press_until(page, key, expression):
    for _ in range(40):
        if page.evaluate(expression):
            return
        page.keyboard.press(key)
    raise AssertionError(f"never true: {expression}")


def test_tab_enters_the_graph_at_one_box(show, gpt):
    page = show(*gpt)
    assert page.locator('#graph [data-item][tabindex="0"]').count() == 1
    press_until(page, "Tab", "document.activeElement.matches('#graph [data-item]')")
    assert page.evaluate(FOCUSED).startswith("idx")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED).startswith("wte")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED).startswith("wte")


def test_one_box_is_a_stop_after_a_change_of_depth(show, gpt):
    page = show(*gpt)
    page.select_option("#depth", "1")
    page.wait_for_selector("#box-count:has-text('9 boxes')")
    assert page.locator('#graph [data-item][tabindex="0"]').count() == 1


def test_a_search_leads_the_focus_to_the_box_found(show, gpt):
    page = show(*gpt)
    page.keyboard.press("/")
    page.keyboard.type("h.7.mlp.c_fc")
    page.keyboard.press("Enter")
    wait_until(page, f"({FOCUSED}).startsWith('c_fc')")
    assert page.inner_text("#curves-title") == "Curves of h.7.mlp.c_fc"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED).startswith("gelu")


@pytest.mark.parametrize("where", ["#depth", "#only-probed", "#zoom-in", "#quantity"])
def test_keys_of_the_page_work_whatever_has_the_focus(show, gpt, where):
    page = show(*gpt)
    page.focus(where)
    theme = page.get_attribute("html", "data-theme")
    page.keyboard.press("t")
    assert page.get_attribute("html", "data-theme") != theme
    quantity = page.locator("#quantity").input_value()
    page.keyboard.press("]")
    assert page.locator("#quantity").input_value() != quantity
    page.keyboard.press("[")
    assert page.locator("#quantity").input_value() == quantity
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("t]")
    assert page.input_value("#search") == "t]"


def test_escape_leaves_the_search_field_and_a_select(show, gpt):
    page = show(*gpt)
    page.keyboard.press("/")
    page.keyboard.type("wte")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
    assert not page.is_visible("#results")
    page.focus("#depth")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
