import hashlib

from tests.pictures.report.assembly import STATIC, scripts


def test_the_list_names_every_script_once():
    named = (STATIC / "scripts.txt").read_text().split()
    there = [str(path.relative_to(STATIC)) for path in STATIC.rglob("*.js")]
    assert sorted(named) == sorted(there)


def test_no_script_ends_its_own_element():
    assert not [text[:40] for text in scripts() if "</script" in text or "<!--" in text]


def test_own_scripts_are_strict_and_read_no_text_as_markup():
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        assert text.startswith('"use strict";'), path.name
        assert not [word for word in words if word in text], path.name


def test_the_template_has_no_inline_styles_or_handlers():
    template = (STATIC / "page.html").read_text()
    assert " style=" not in template
    assert " on" not in [
        word for part in template.split("<") for word in part.split(">")[0].split("=")
    ]
    for name in ("csp", "title", "style", "data", "scripts"):
        assert template.count("{{" + name + "}}") == 1


def test_graphviz_stands_as_its_package_has_it():
    packed = (STATIC / "vendor" / "viz-global.js").read_bytes()
    expected = "c9e0b310f9883910e01c66054b48b7ff4be3d8695141116635e72b0af152692e"
    assert hashlib.sha256(packed).hexdigest() == expected


def test_each_vendored_work_has_its_licence():
    notice = (STATIC / "vendor" / "NOTICE").read_text()
    for name in ("LICENSE-viz.txt", "LICENSE-graphviz.txt", "LICENSE-expat.txt"):
        assert name in notice
        assert (STATIC / "vendor" / name).read_text()
