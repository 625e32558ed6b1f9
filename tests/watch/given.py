"""Findings and records from a few lines."""

from taiyi_fx import Finding, Records
from taiyi_fx.records.record import Block
from tests.findings.given import FACTS


def finding(kind="outlier", severity="alert", module="fc", step=3, quantity="WeightNorm", **more):
    return Finding(kind, severity, module, quantity, step, 9.0, "near 1", "it is 9", "look", **more)


def describe(series):
    return FACTS[series[1]]


def block(step, quantity, values, mode="train"):
    names = ("",) if quantity == "loss" else tuple(f"layer.{i}" for i in range(len(values)))
    return Block(step, mode, tuple((name, quantity) for name in names), values)


def training(losses, of_layers=None):
    """Records of a loss and of the outputs of ten layers."""
    records = Records()
    for step, loss in enumerate(losses):
        outputs = [1.0 + 0.01 * i for i in range(10)]
        for layer, first, value in of_layers or []:
            outputs[layer] = value if step >= first else outputs[layer]
        records.extend([block(step, "OutputRMS", outputs), block(step, "loss", [loss])])
    return records
