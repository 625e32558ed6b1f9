"""The quantities that rules look at."""

import re
from pathlib import Path

import taiyi_fx
from taiyi_fx import findings
from taiyi_fx.findings.judged import JUDGED

COUNTS = {
    *("NonFinite", "OutputGradNonFinite", "InputNonFinite", "LearningRate", "LossSpike"),
    *("InputAbsMax", "OutputNorm", "OutputGradAbsMax", "OutputGradNorm", "Fingerprint"),
}
"""Looked at for what is not finite or has no elements, or for the sake of others; or named as what
is to change, or as what tells nothing."""


def test_all_that_rules_name_are_judged_and_no_others():
    every = taiyi_fx.quantities()
    known = {one.name for one in every if one.health != "share_of_trouble"}
    files = Path(findings.__file__).parent.rglob("*.py")
    texts = [file.read_text(encoding="utf-8") for file in files if file.name != "judged.py"]
    named = {name for text in texts for name in re.findall(r'"([A-Z]\w+)(?:\.[a-z]\w*)?"', text)}
    assert (named & known) - COUNTS == JUDGED
