"""Evidence from a few lines: series by module and quantity."""

import importlib
import pkgutil
from dataclasses import fields, replace

import numpy as np

import taiyi_fx.findings
from taiyi_fx.findings import Evidence, Flow, LossFacts, ModelFacts, OptimizerFacts, Watched
from taiyi_fx.findings.kind import Kind

FACTS = {
    "OutputRMS": ("forward", "lasting", ""),
    "InputRMS": ("forward", "lasting", ""),
    "InputMean": ("forward", "", ""),
    "InputStd": ("forward", "", ""),
    "OutputVariation": ("forward", "", "ratio"),
    "NonFinite": ("forward", "counts_non_finite", "elements"),
    "DeadNeuronRatio": ("forward", "share_of_trouble", "share"),
    "InputCovCondition": ("forward", "", "ratio"),
    "OutputGradRMS": ("backward", "", ""),
    "GradNorm": ("backward", "", ""),
    "MeanTID": ("forward", "", "ratio"),
    "WeightNorm": ("parameter", "lasting", ""),
    "WeightGradNorm": ("backward", "", ""),
    "UpdateRatio.weight": ("backward", "step_size", "ratio"),
    "UpdateRatio.bias": ("backward", "step_size", "ratio"),
    "UpdateRatio.weight_hh_l0": ("backward", "step_size", "ratio"),
    "VarTID": ("forward", "", "ratio"),
    "OutputAbsMax": ("forward", "lasting", ""),
    "ParticipationRatio": ("forward", "lasting", "dimensions"),
    "OverflowRate": ("forward", "share_of_trouble", "share"),
    "OutputGradUnderflowRate": ("backward", "share_of_trouble", "share"),
    "ParameterNorm.weight": ("parameter", "lasting", ""),
    "ParameterNorm.bias": ("parameter", "lasting", ""),
    "ParameterRMS.weight": ("parameter", "lasting", ""),
    "ParameterRMS.weight_hh_l0": ("parameter", "lasting", ""),
    "ParameterRMS.bias": ("parameter", "lasting", ""),
    "ParameterRMS.gamma": ("parameter", "lasting", ""),
    "ParameterNorm.gamma": ("parameter", "lasting", ""),
    "ParameterRMS.weights1": ("parameter", "lasting", ""),
    "ParameterNorm.weights1": ("parameter", "lasting", ""),
    "UpdateRatio.weights1": ("backward", "step_size", "ratio"),
    "ParameterNorm.weight_g": ("parameter", "lasting", ""),
    "ParameterNorm.weight_v": ("parameter", "lasting", ""),
    "ParameterGradNorm.weight_v": ("backward", "", ""),
    "WeightGradAgreement": ("backward", "", "cosine"),
    "WeightGradExcess": ("backward", "", "ratio"),
    "RouterEntropy": ("forward", "lasting", "nats"),
    "DeadExperts": ("forward", "share_of_trouble", "share"),
    "AttentionLogitMax": ("forward", "", ""),
    "AttentionSink": ("forward", "", "share"),
    "HeadNorm": ("forward", "lasting", ""),
    "HeadNorm.smallest": ("forward", "lasting", ""),
    "HeadNorm.median": ("forward", "lasting", ""),
    "HeadNorm.largest": ("forward", "lasting", ""),
    "RouterLoad.imbalance": ("forward", "", "share"),
    "RouterLoad.busiest": ("forward", "", "share"),
    "RouterLoad.dropped": ("forward", "", "share"),
    "OutlierFeatures.largest": ("forward", "", "features"),
    "SecondMoment.weight": ("parameter", "", ""),
    "SecondMoment.bias": ("parameter", "", ""),
    "ParameterGradNorm.bias": ("backward", "", ""),
    "ParameterNorm.token": ("parameter", "lasting", ""),
    "ParameterNorm.weight_ih_l0": ("parameter", "lasting", ""),
    "ParameterRMS.weight_ih_l0": ("parameter", "lasting", ""),
    "WeightSpectralNorm": ("parameter", "lasting", ""),
    "WeightStableRank": ("parameter", "lasting", "dimensions"),
    "AttentionEntropy": ("forward", "lasting", "nats"),
    "AttentionAhead": ("forward", "", "share"),
    "AttentionAllowed": ("forward", "", "share"),
    "PaddingRate": ("forward", "", "share"),
    "OutputGradSampleRate": ("backward", "", "share"),
    "OutputGradSampleSpread": ("backward", "", "share"),
    "InputSQNR.typical": ("forward", "", ""),
    "UpdateLost.weight": ("backward", "", "share"),
    "UpdateLost.bias": ("backward", "", "share"),
    "LearningRate": ("parameter", "", "rate"),
    "ParameterGradNorm.token": ("backward", "", ""),
    "UpdateRatio.token": ("backward", "step_size", "ratio"),
    "LearningRate.group1": ("parameter", "", "rate"),
    "loss": ("", "", ""),
}


def facts_of(quantity):
    """Those of a series; a loss is logged by any name."""
    return FACTS["loss"] if "loss" in quantity else FACTS[quantity]


def evidence(numbers, steps=None):
    """Of ``{(module, quantity): values}``; a single number stands for one at each of 40 steps."""
    return Evidence.of(
        Watched.made(name, facts_of(name[1]), *_columns(values, steps))
        for name, values in numbers.items()
    )


_PARTS = {"model": ModelFacts, "optimizer": OptimizerFacts, "flow": Flow}
_OF_LOSSES = {**{f.name: f.name for f in fields(LossFacts)}, "loss_graphs": "graph"}


def knowing(known, **facts):
    """The evidence with other facts, each by its name, those of losses by the loss's name."""
    for name, value in facts.items():
        if name in _OF_LOSSES:
            of = {loss: {_OF_LOSSES[name]: fact} for loss, fact in value.items()}
            made = {
                loss: replace(known.of_losses.get(loss, LossFacts()), **of[loss]) for loss in of
            }
            known = replace(known, of_losses={**known.of_losses, **made})
            continue
        part = next((p for p, of in _PARTS.items() if name in of.__dataclass_fields__), None)
        if part is None:
            known = replace(known, **{name: value})
        else:
            known = replace(known, **{part: replace(getattr(known, part), **{name: value})})
    return known


def _columns(values, steps):
    steps = np.arange(40 if np.ndim(values) == 0 else len(values)) if steps is None else steps
    values = np.full(len(steps), float(values)) if np.ndim(values) == 0 else np.array(values, float)
    return np.array(steps), values


def kinds():
    """All kinds that are declared anywhere among the rules, and of steps that are tried."""
    found = pkgutil.walk_packages(taiyi_fx.findings.__path__, "taiyi_fx.findings.")
    for name in (*(each.name for each in found), "taiyi_fx.step_checks.kinds"):
        module = importlib.import_module(name)
        for known in vars(module).values():
            every = known if isinstance(known, tuple) else (known,)
            yield from (x for x in every if isinstance(x, Kind))
