import json

import numpy as np
import pytest

from tests.pictures.report import fake
from tests.pictures.report.assembly import scripts

IMAGE = "</script><img src=x onerror=\"document.title='taken'\">"
NAMES = [
    IMAGE,
    '" onmouseover="document.title=1',
    "two\nlines",
    "right\u202eto\u202cleft",
    "long" * 125,
    "{{scripts}}",
    "]]> --> <!-- <svg onload=document.title=2>",
]


@pytest.fixture
def hostile():
    outline = fake.Outline()
    root = outline.add("module", "", -1, class_name=IMAGE)
    last = outline.add("input", IMAGE, root)
    for k, name in enumerate(NAMES):
        marks = {"forward": [[IMAGE, IMAGE]], "edits": [IMAGE]}
        home = outline.add("module", name, root, class_name=name, module=f"{name}.{k}")
        told = {"class_name": name, "module": name, "marks": marks, "notes": [IMAGE]}
        leaf = outline.add("module", name, home, family=IMAGE, **told)
        outline.join(last, leaf, shape=IMAGE)
        last = leaf
    opened = [0, *(k for k, item in enumerate(outline.items) if item["parent"] == 0)]
    made, chunks = fake.run(outline, columns=40)
    text = json.dumps(made)
    text = text.replace("h.0.attn.proj", "two\\nlines").replace(
        "runs/exp1", json.dumps(IMAGE)[1:-1]
    )
    made = json.loads(text)
    made["model"] = IMAGE
    made["events"] = [{"step": 5, "kind": IMAGE, "module": name, "text": IMAGE} for name in NAMES]
    steps = np.arange(3.0)
    grid = {"start": steps, "end": steps, "mean": np.ones((1, 3))}
    made["chunks"][0], chunks[0] = fake.entry(0, grid, quantity=IMAGE, mode="train", raw=True)
    names = {"module": IMAGE, "quantity": IMAGE, "unit": IMAGE, "row": 0, "chunk": 0}
    made["series"].append({**made["series"][0], **names, "first": 0, "last": 2})
    return {**fake.header([made], outline, opened), "title": IMAGE}, chunks


def test_hostile_names_stay_text(show, hostile, screenshots):
    page = show(*hostile)
    page.screenshot(path=screenshots / "hostile.png")
    for number in range(len(NAMES)):
        page.locator("#event-rows button").nth(number).click()
    for name in NAMES:
        page.fill("#search", name.replace("\n", " "))
    page.keyboard.press("Escape")
    page.locator("#heat-table summary").click()
    page.wait_for_timeout(300)
    assert page.title() == IMAGE
    assert page.locator("img, svg[onload], [onmouseover], [onerror]").count() == 0
    assert page.locator("script:not([type])").count() == len(scripts())


def test_long_names_lose_their_middle_and_are_whole_in_the_tooltip(show, hostile):
    page = show(*hostile)
    long = NAMES[4]
    shown = page.locator("#graph .name").all_text_contents()
    short = next(text for text in shown if text.startswith("longlong"))
    assert len(short) == 34
    assert "…" in short
    assert any(long in text for text in page.locator("#graph title").all_text_contents())


def test_what_hides_or_turns_text_is_spelt_out(show, hostile):
    page = show(*hostile)
    shown = page.locator("#graph .name").all_text_contents()
    assert "right\\u202eto\\u202cleft" in shown
    assert "two\\u000alines" in shown


def test_names_that_objects_have_of_themselves_are_names(show, gpt):
    made, chunks = gpt
    names = ["constructor", "toString", "__proto__", "hasOwnProperty", "valueOf"]
    text = json.dumps(made)
    for name, module in zip(names, ("h.0.mlp.c_fc", "h.0.ln_1", "wte", "ln_f", "h.1"), strict=True):
        text = text.replace(json.dumps(module), json.dumps(name))
    made = json.loads(text.replace("OutputRMS", "__proto__").replace("WeightNorm", "constructor"))
    (run,) = made["runs"]
    run["events"] = [{"step": 5, "kind": name, "module": name, "text": name} for name in names]
    page = show(made, chunks)
    page.locator("#event-rows button").first.click()
    assert page.locator("#event-rows .kind").all_inner_texts() == names
    assert page.locator("#event-rows button").all_inner_texts() == names
    assert page.locator("#charts h3").first.inner_text() == "__proto__"
