import json
import struct
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from tests.pictures.report import fake
from tests.pictures.report.assembly import assemble
from tests.pictures.report.conftest import wait_until, wait_until_ready

STEPS = 50
NAMES = "one", "two"


class Running:
    """A run of two modules that is served step by step."""

    def __init__(self):
        self.last = STEPS
        self.asked = []
        self.refused = []
        self.is_broken = False
        self.problem = ""
        self.events = []
        self.version = "1"
        outline = fake.Outline()
        root = outline.add("module", "", -1, class_name="Net")
        for name in NAMES:
            told = {"class_name": "Linear", "module": name, "family": "linear"}
            outline.add("module", name, root, **told, marks={"forward": [["OutputRMS", ""]]})
        outline.join(1, 2)
        self.outline = outline
        self.findings, self.open = [], [root]

    def header(self):
        told = {"numbers": self.last, "last": self.last, "latest": float(self.last)}
        series = [fake.series(name, "OutputRMS", row=row, **told) for row, name in enumerate(NAMES)]
        more = {"name": "running", "events": self.events, "findings": self.findings}
        run = fake.run_of(series, [self.entry(-1)[0]], **more)
        made = fake.header([run], self.outline, self.open)
        return {**made, "live": {"poll_ms": 100, "problem": self.problem}}

    def entry(self, after):
        steps = np.arange(after + 1, self.last + 1, dtype=float)
        parts = {"start": steps, "end": steps, "mean": np.stack([steps, 2 * steps])}
        told = {"quantity": "OutputRMS", "mode": "train", "raw": True}
        return fake.entry(0, parts, **told, version=self.version, last=self.last)

    def answer(self, path):
        place, _, query = path.partition("?")
        self.asked.append(path)
        if place == "/token/":
            return "text/html", assemble(self.header(), {}).encode()
        if place == "/token/header":
            return "application/json", json.dumps(self.header()).encode()
        entry, packed = self.entry(int(query.partition("=")[2] or -1))
        told = json.dumps(entry).encode()
        return "application/octet-stream", struct.pack("<I", len(told)) + told + packed


class Handler(BaseHTTPRequestHandler):
    def __init__(self, run, *given):
        self.run = run
        super().__init__(*given)

    def do_GET(self):
        if self.run.is_broken or self.path == "/favicon.ico":
            self.run.refused.append(self.path)
            self.send_error(503)
            return
        kind, body = self.run.answer(self.path)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given): ...


@contextmanager
def opened(browser, run, *, has_clock=False):
    """The run's page, served; if it has a clock, the test turns it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, run))
    thread = Thread(target=server.serve_forever)
    thread.start()
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    if has_clock:
        page.clock.install()
    page.goto(f"http://127.0.0.1:{server.server_port}/token/")
    wait_until_ready(page)
    yield page
    page.close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def live(browser):
    run = Running()
    with opened(browser, run) as page:
        yield run, page


def test_a_live_page_follows_the_run(live, screenshots):
    run, page = live
    assert page.inner_text("#live-text") == "live · step 50"
    box = page.locator("#graph .box").first
    assert "OutputRMS50" in box.text_content()
    run.last = 80
    wait_until(page, "document.querySelector('#live-text').textContent === 'live · step 80'")
    wait_until(page, "document.querySelector('#graph .box').textContent.includes('OutputRMS80')")
    assert "chunk/0?after=50" in " ".join(run.asked)
    assert "0 … 160" in page.inner_text("#charts .legend")
    page.screenshot(path=screenshots / "live.png")


def test_a_live_page_pauses(live):
    run, page = live
    page.click("#pause")
    page.wait_for_timeout(250)
    run.last = 90
    page.wait_for_timeout(400)
    assert page.inner_text("#live-text") == "live · step 50"
    page.click("#pause")
    wait_until(page, "document.querySelector('#live-text').textContent === 'live · step 90'")


def test_a_server_that_stops_answering_is_told(live):
    run, page = live
    run.is_broken = True
    wait_until(page, "document.querySelector('#live').classList.contains('failed')")
    assert page.inner_text("#live-text") == "the server does not answer"
    asked = len(run.refused)
    wait_until(page, "document.querySelector('#live').title.startsWith('503')")
    page.wait_for_timeout(300)
    assert len(run.refused) > asked
    assert page.inner_text("#live-text") == "the server does not answer"
    run.is_broken = False
    wait_until(page, "document.querySelector('#live-text').textContent === 'live · step 50'")


def test_what_keeps_a_run_from_being_read_is_told(live):
    run, page = live
    run.problem = "the run's folder is gone"
    wait_until(page, "document.querySelector('#live').classList.contains('failed')")
    assert page.inner_text("#live-text") == "the run's folder is gone"


def test_numbers_whose_past_changed_are_asked_for_anew(live):
    run, page = live
    run.asked.clear()
    run.version = "2"
    run.last = 60
    wait_until(page, "document.querySelector('#live-text').textContent === 'live · step 60'")
    page.wait_for_timeout(150)
    assert run.asked.count("/token/chunk/0") == 1
    assert "0 … 120" in page.inner_text("#charts .legend")


def test_a_first_nan_is_marked_as_it_comes(live):
    run, page = live
    told = {"step": 60, "kind": "non_finite", "module": "two", "text": "NaN in the output"}
    run.events = [told]
    run.last = 60
    page.wait_for_selector(
        "#graph .box:has-text('first NaN/Inf, step 60') .alarm", state="attached"
    )
    assert page.inner_text("#event-rows td >> nth=0") == "60"


def folded():
    """A run whose second module stands in a part that is closed at first."""
    run = Running()
    outline = fake.Outline()
    root = outline.add("module", "", -1, class_name="Net")
    marks = {"forward": [["OutputRMS", ""]]}
    leaf = {"class_name": "Linear", "family": "linear", "marks": marks}
    first = outline.add("module", "one", root, module="one", **leaf)
    part = outline.add("module", "part", root, class_name="Part", module="part")
    inner = outline.add("module", "two", part, module="two", **leaf)
    outline.join(first, inner)
    run.outline = outline
    return run, part, inner


def test_a_new_finding_opens_its_fold_once(browser):
    run, part, inner = folded()
    with opened(browser, run) as page:
        assert page.locator(f'#graph [data-item="{inner}"]').count() == 0
        told = {"kind": "outlier", "severity": "alert", "module": "two", "quantity": "OutputRMS"}
        told |= {"step": 60, "text": "it is large", "advice": "look", "link": "", "follow": 0}
        told |= {"boxes": [inner], "evidence": "OutputRMS", "opens": "OutputRMS"}
        run.findings, run.open, run.last = [{**told, "consequences": []}], [0, part], 60
        page.wait_for_selector(f'#graph [data-item="{inner}"]:has-text("outlier, step 60")')
        assert page.inner_text("#findings-title") == "Findings: 1 alert"
        page.click(f'#graph [data-item="{part}"] .toggle')
        page.wait_for_selector(f'#graph [data-item="{inner}"]', state="detached")
        run.last = 70
        wait_until(page, "document.querySelector('#live-text').textContent === 'live · step 70'")
        page.wait_for_timeout(150)
        assert page.locator(f'#graph [data-item="{inner}"]').count() == 0  # closed by hand


def test_gradients_that_overflow_under_a_scaler_do_not_take_the_place_of_the_first_nan(live):
    run, page = live
    calm = {"step": 20, "kind": "overflow", "module": "one", "text": "Inf in the gradient"}
    run.events = [calm, {"step": 60, "kind": "non_finite", "module": "two", "text": "NaN"}]
    run.last = 60
    page.wait_for_selector(
        "#graph .box:has-text('first NaN/Inf, step 60') .alarm", state="attached"
    )
    assert page.locator("#graph .alarm").count() == 1
    assert page.inner_text("#event-rows .kind.muted") == "overflow"


def test_a_graph_that_comes_or_changes_is_shown(live):
    run, page = live
    home = run.outline.add("module", "three", 0, class_name="Linear", module="three", marks={})
    run.outline.join(2, home)
    page.wait_for_selector("#box-count:has-text('3 boxes')")
    wait_until_ready(page)
    page.select_option("#depth", "auto")
    assert page.locator("#graph .box").count() == 3


def test_silence_is_told_until_a_step_comes(browser, screenshots):
    run = Running()
    with opened(browser, run, has_clock=True) as page:
        page.clock.run_for(8_000)
        assert page.inner_text("#live-text") == "live · step 50"
        page.clock.fast_forward(34_000)
        page.clock.run_for(1_500)
        assert page.inner_text("#live-text") == "no news for 40 s · step 50"
        dot = "getComputedStyle(document.querySelector('#live .dot')).backgroundColor"
        assert page.evaluate(dot) == "rgba(0, 0, 0, 0)"
        page.screenshot(path=screenshots / "silent.png")
        page.clock.fast_forward(300_000)
        page.clock.run_for(1_500)
        assert page.inner_text("#live-text") == "no news for 5 min · step 50"
        run.last = 60
        for _ in range(50):
            page.clock.run_for(200)
            page.wait_for_timeout(20)
            if page.inner_text("#live-text") == "live · step 60":
                break
        assert page.inner_text("#live-text") == "live · step 60"
