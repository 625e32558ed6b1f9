"""The stored form of names, numbers and sessions."""

import pytest

from taiyi_fx.runs.schema import from_text, to_text


@pytest.mark.parametrize(
    "name", ["", "a.b", "\\", "\\\\x00", "\0", "\ud800\udfff", "\\ud800", "é🦜"]
)
def test_names_are_text_and_come_back(name):
    text = to_text(name)
    assert from_text(text) == name
    assert "\0" not in text
    assert text.encode().decode() == text
    if name.isprintable() and "\\" not in name:
        assert text == name
