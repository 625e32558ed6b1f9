"""Values as JSON and tensors."""

import json
import math

import pytest
import torch

from taiyi_fx.recorder.replay.checkpoint import Key
from taiyi_fx.recorder.replay.plain import CannotSave, Plain, value_of


def there_and_back(value):
    plain = Plain()
    return value_of(json.loads(json.dumps(plain.value("it", value))), plain.tensors)


def test_values_come_back_as_they_were():
    value = {"a": (1, 2.5, None), 3: [True, "text", -math.inf], "t": torch.float16}
    assert there_and_back(value) == value
    assert there_and_back(torch.device("cpu")) == torch.device("cpu")
    assert there_and_back(Key("x", torch.device("cpu"))) == Key("x", torch.device("cpu"))
    assert math.isnan(there_and_back(math.nan))


def test_tensors_are_put_aside_by_their_place():
    plain = Plain()
    x = torch.ones(2, requires_grad=True)
    found = plain.value("call", {"args": [x]})
    assert [*plain.tensors] == ["call.args.0"]
    (back,) = value_of(found, plain.tensors)["args"]
    assert back.requires_grad
    assert back is not x
    assert torch.equal(back, x)


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, {1, 2}, 3j])
def test_what_a_file_cannot_hold_is_named(value):
    kind = type(value).__name__
    with pytest.raises(CannotSave, match=rf"it\.1 is a {kind}, which a file cannot hold"):
        Plain().value("it", [0, value])


def test_another_kind_of_value_is_refused():
    with pytest.raises(ValueError, match="'pickle' is not known"):
        value_of({"pickle": "..."}, {})
