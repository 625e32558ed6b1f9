"""The lines of a model in the traceback of an error within a graph."""

import gc
import traceback

import pytest
import torch
from torch import nn

import taiyi_fx


def viewed(x):
    return x.view(7, 7)


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        return viewed(y) + y


class Mismatched(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        y = 2 * x
        return self.fc(y)


class Chained(nn.Module):
    """Keeps what it catches, and raises another error."""

    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(Fails())

    def forward(self, x):
        try:
            return self.part(x)
        except RuntimeError as error:
            raise KeyError("mine") from error


def lines_of(error):
    """The files, functions and lines, without those of torch's calls and of ours."""
    found = traceback.extract_tb(error.__traceback__)
    return [
        (entry.filename, entry.name, entry.line)
        for entry in found[1:]
        if not entry.filename.endswith("torch/nn/modules/module.py")
        and "/taiyi_fx/" not in entry.filename
    ]


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("part", [Fails, Mismatched, Chained])
@pytest.mark.parametrize("cfg", [["OutputRMS"], ["BackwardInput", taiyi_fx.edit(grad=torch.neg)]])
def test_they_are_those_of_the_plain_models(part, cfg):
    plain, x = nn.Sequential(nn.Linear(4, 4), nn.Sequential(part())), torch.randn(2, 4)
    instrumented = taiyi_fx.instrument(plain, {nn.Linear: cfg})
    for _ in range(3):  # the first is followed closely
        raised = []
        for model in (plain, instrumented):
            with pytest.raises((RuntimeError, KeyError)) as caught:
                model(x)
            error = caught.value
            raised.append((error, error.__cause__, error.__context__))
        for expected, found in zip(*raised, strict=True):
            assert type(expected) is type(found)
            assert str(expected) == str(found)
            if expected is not None:
                assert lines_of(expected) == lines_of(found)
                assert expected.__suppress_context__ == found.__suppress_context__


def test_the_innermost_is_the_models_own():
    instrumented = taiyi_fx.instrument(nn.Sequential(Fails()), {"*": ["OutputRMS"]})
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            instrumented(torch.randn(2, 4))
        *_, last = traceback.extract_tb(caught.value.__traceback__)
        assert (last.name, last.line) == ("viewed", "return x.view(7, 7)")
        assert "return x.view(7, 7)\nRuntimeError" in "".join(
            traceback.format_exception(caught.value)
        )


def tensors():
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("part", [Fails, Mismatched])
def test_an_error_that_was_caught_holds_no_tensor_until_garbage_is_collected(part):
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(part()))
    instrumented, x = taiyi_fx.instrument(model, {"*": ["OutputRMS"]}), torch.randn(2, 4)
    assert not instrumented.capture.python
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            before = tensors()
            try:
                instrumented(x)
            except RuntimeError:
                pass
            else:
                raise AssertionError("it fails")
            assert tensors() == before
    finally:
        gc.enable()
