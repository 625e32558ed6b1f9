"""A finding says what was seen and what to do."""

from taiyi_fx.findings import Finding


def finding(**changes):
    facts = {
        "kind": "outlier",
        "severity": "warning",
        "module": "fc",
        "quantity": "WeightNorm",
        "step": 3,
        "value": 9.0,
        "expected": "1",
        "text": "it is large",
        "advice": "Make it small",
    }
    return Finding(**{**facts, **changes})


def test_its_text_is_what_was_seen_and_what_to_do():
    assert str(finding()) == "warning outlier: it is large. Make it small"


def test_what_follows_from_it_is_counted_and_named():
    other = finding(module="head")
    two = finding(consequences=(other, finding(kind="plateau", module="")))
    assert "(2 more follow from it: outlier of 'head', plateau)" in str(two)
    assert "more follow" not in str(finding(consequences=(finding(),))), "one that is itself"
    many = str(finding(consequences=(other,) * 5))
    assert many.count("outlier of 'head'") == 3
    assert "(5 more follow from it: " in many
    assert ", ...)" in many
    assert "consequences" not in repr(finding())
