"""The kinds of findings of a step that was tried."""

from taiyi_fx.findings.finding import SEVERITIES
from taiyi_fx.step_checks import kinds

KINDS = [kind for kind in vars(kinds).values() if isinstance(kind, kinds.TriedKind)]


def test_a_finding_has_the_fields_of_its_kind():
    assert len(KINDS) > 8
    for kind in KINDS:
        found = kind.of("layer", 2.0, "what was seen", "1", severity="note")
        assert (found.kind, found.module, found.value) == (kind.name, "layer", 2.0)
        assert (found.severity, found.advice) == ("note", kind.advice)
        assert kind.severity in SEVERITIES
        assert not kind.advice.endswith(".")
