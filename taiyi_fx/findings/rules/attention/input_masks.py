"""Masks that the model itself is given, which hide its tokens."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.attention.masks import TURNED_MASK

_FEW = 2
"""Forwards in which it has to hide them."""
_ADVICE = "Look at where it is made: an attention_mask of transformers is 1 at tokens, 0 at padding"


def hidden_tokens(evidence: Evidence) -> Iterator[Finding]:
    """An `attention_mask` that shows no token, or padding alone and hides all that differ."""
    looks = [one for one in evidence.inputs.shown if one.shown or one.hidden]
    if len(looks) < _FEW or not evidence.series:
        return
    if not any(one.shown for one in looks):
        text = "is 0 everywhere: it shows no token"
    elif all(one.token is not None and one.are_hidden_different for one in looks):
        token = looks[0].token
        text = f"shows only the tokens of 'input_ids' that are {token}, as padding is: it is turned"
    else:
        return
    share = sum(one.hidden for one in looks) / sum(one.shown + one.hidden for one in looks)
    text = f"the input 'attention_mask' {text}"
    others = {"module": "", "value": share, "advice": _ADVICE}
    yield TURNED_MASK.at(evidence.series[0], 0, text, "0 at padding alone", **others)
