"""Ends of texts that are left out with the padding."""

import pytest

from taiyi_fx.findings.facts.source.text_ends import ends_as_padding
from tests.findings.facts.source.reading import found_in

CODE = """
tokenizer.{pad} = tokenizer.{end}
labels = ids.clone()
{left_out}
"""
LEFT_OUT = "labels[labels == tokenizer.pad_token_id] = -100"


def lines(pad="pad_token", end="eos_token", left_out=LEFT_OUT):
    code = CODE.format(pad=pad, end=end, left_out=left_out)
    return [line for line, _ in found_in(code, ends_as_padding)]


def test_targets_without_an_end_are_found():
    assert lines() == [4]
    assert lines("pad_token_id", "eos_token_id") == [4]
    assert lines(left_out="labels = ids.masked_fill(ids == tokenizer.pad_token_id, -100)") == [4]


@pytest.mark.parametrize(
    "changed",
    [
        {"end": "unk_token"},
        {"left_out": "labels[mask == 0] = -100"},
        {"left_out": "ids[ids == tokenizer.pad_token_id] = 0"},
        {"left_out": "labels = labels.masked_fill(mask == 0, -100)"},
    ],
    ids=["another token", "by the mask", "no target", "filled by the mask"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []
