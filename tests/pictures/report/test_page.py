"""The page: its policy, and text that is never markup."""

import base64
import hashlib
import json

import taiyi_fx
from taiyi_fx.pictures.report.page import assemble, escaped
from taiyi_fx.writers import Store
from tests.pictures.report.decoded import Elements
from tests.writers.runs import numbers, written


def test_the_policy_allows_the_pages_own_scripts_and_no_others(tmp_path):
    path = written(Store, tmp_path / "run", [numbers(0, [1.0])])
    page = Elements(taiyi_fx.report(path, tmp_path / "x.html").read_text(encoding="utf-8"))
    policy = dict(part.split(" ", 1) for part in page.policy.split("; "))
    *allowed, wasm = policy["script-src"].split()
    scripts, styles = page.texts("script"), page.texts("style")
    assert len(scripts) > 0 < len(styles)
    assert allowed == [hashed(text) for text in scripts]
    assert policy["style-src"].split() == [hashed(text) for text in styles]
    assert wasm == "'wasm-unsafe-eval'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "connect-src" not in policy


def hashed(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_of_a_live_run_may_ask_its_own_server():
    page = assemble({"title": "run", "live": {"poll_ms": 1}}, [])
    assert "connect-src 'self'" in page.policy
    assert Elements(page.text).policy == page.policy


def test_a_title_stays_text():
    text = assemble({"title": "</title><b>{{data}}", "live": False}, []).text
    assert "<title>&lt;/title&gt;&lt;b&gt;{{data}}</title>" in text


def test_escaped_json_has_no_markup_and_means_the_same():
    value = ["</script>", "<!--", "a & b", "\u2028"]
    text = escaped(json.dumps(value))
    assert not set("<>&").intersection(text)
    assert json.loads(text) == value
