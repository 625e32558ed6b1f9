import base64
import json
import re

from tests.pictures.report import fake
from tests.pictures.report.assembly import assemble
from tests.pictures.report.conftest import wait_until


def decoded(page):
    return int(page.evaluate("document.documentElement.dataset.decoded"))


def test_the_time_until_a_page_is_interactive_is_marked(show, gpt, screenshots):
    header, chunks = gpt
    assert len(header["runs"][0]["series"]) >= 1200
    page = show(header, chunks)
    marks = page.evaluate(
        "Object.fromEntries(performance.getEntriesByType('mark').map(m => [m.name, m.startTime]))"
    )
    print(f"interactive after {marks['taiyi:interactive']:.0f} ms")  # benchmarks/report.py: of 12 M
    assert 0 < marks["taiyi:start"] < marks["taiyi:interactive"]
    page.screenshot(path=screenshots / "start.png")


def test_chunks_are_decoded_when_they_are_shown(show, gpt):
    page = show(*gpt)
    assert decoded(page) == 2  # the quantity shown, and a tensor
    page.select_option("#quantity", "OutputStd")
    wait_until(page, "document.documentElement.dataset.decoded === '3'")
    page.select_option("#quantity", "OutputRMS")
    page.wait_for_timeout(200)
    assert decoded(page) == 3


def test_a_page_without_an_outline_shows_its_numbers(show, gpt):
    header, chunks = gpt
    page = show({**header, "outline": None, "open": []}, chunks)
    assert not page.is_visible("#model")
    first = page.locator("#charts .legend button").first
    name = first.inner_text()
    first.click()
    assert page.inner_text("#curves-title") == f"Curves of {name}"


def test_a_page_of_nothing_says_so(show):
    outline, opened = fake.gpt(1)
    made, _ = fake.run(outline)
    empty = {**made, "series": [], "chunks": [], "events": [], "epochs": [], "sessions": []}
    page = show(fake.header([empty], outline, opened), {})
    assert page.is_visible("#heat-empty")
    assert page.is_visible("#no-events")
    assert page.locator("#graph .box").count() > 10


def test_the_policy_refuses_scripts_that_were_not_there(show, gpt, complaints):
    page = show(*gpt)
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "document.title = 'taken'";
          document.body.append(script);
        }"""
    )
    page.wait_for_timeout(100)
    assert page.title() == "runs/exp1"
    assert "Content Security Policy" in complaints.pop()


def test_data_stand_in_elements_that_are_never_executed(gpt):
    page = assemble(*gpt)
    told = re.search(r'<script type="application/json" id="taiyi-data">(.*?)</script>', page)[1]
    assert json.loads(told) == gpt[0]
    assert len(re.findall(r'<script type="application/octet-stream"', page)) == len(gpt[1])
    first = re.search(r'id="taiyi-chunk-0">(.*?)</script>', page)[1]
    assert base64.b64decode(first, validate=True)
