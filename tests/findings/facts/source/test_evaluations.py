"""Evaluations that nothing puts into evaluation mode."""

import pytest

from taiyi_fx.findings.facts.source.evaluations import evaluated_in_training_mode
from tests.findings.facts.source.reading import found_in

CODE = """
optimizer = Adam(net.parameters())
for x, y in loader:
    loss = f(net(x), y)
    {backward}
    {before}
    with {block}:
        {evaluated}
"""


def lines(
    before="pass",
    block="torch.no_grad()",
    evaluated="val_loss = f(net(x_val), y_val)",
    backward="loss.backward()",
):
    code = CODE.format(before=before, block=block, evaluated=evaluated, backward=backward)
    return [line for line, _ in found_in(code, evaluated_in_training_mode)]


@pytest.mark.parametrize("block", ["torch.no_grad()", "torch.inference_mode()"])
@pytest.mark.parametrize(
    "evaluated",
    ["val_loss = f(net(x_val), y_val)", "acc = (net(x).argmax(1) == y).mean()", "log(test=net(x))"],
)
def test_a_call_in_a_block_without_gradients_is_found(block, evaluated):
    assert lines(block=block, evaluated=evaluated) == [8]


def test_a_function_that_evaluates_what_it_is_given_is_found():
    code = (
        "@torch.no_grad()\ndef evaluate(model, loader):\n    return f(model(loader.x))\n"
        "loss.backward()\n"
    )
    assert [line for line, _ in found_in(code, evaluated_in_training_mode)] == [3]
    code = code.replace("model", "self.net")
    assert found_in(code.replace("(self.net, ", "(self, "), evaluated_in_training_mode) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"before": "net.eval()"},
        {"before": "net.train(False)"},
        {"before": "net.train(mode=False)"},
        {"block": "open(path)"},
        {"evaluated": "action = net(state)"},
        {"evaluated": "val_loss = f(teacher(x_val), y_val)"},
        {"backward": "pass"},
    ],
    ids=["eval", "train(False)", "mode", "another block", "acts", "another model", "never trains"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []
