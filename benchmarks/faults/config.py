"""The one configuration by which all trainings are watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from taiyi_fx import every

Cfg = dict[Callable[[str, nn.Module], bool], list[Any]]


def configuration(model: nn.Module) -> Cfg:
    """The entries of `CFG` that fit any module of a model."""
    modules = dict(model.named_modules())
    return {
        key: asked
        for key, asked in CFG.items()
        if any(key(name, module) for name, module in modules.items())
    }


def is_whole(name: str, module: nn.Module) -> bool:
    """Whether it is the model itself."""
    return not name


def is_leaf(name: str, module: nn.Module) -> bool:
    """Whether a module has no modules within."""
    return not any(True for _ in module.children())


def has_parameters(name: str, module: nn.Module) -> bool:
    """Whether a module has parameters of its own."""
    return any(True for _ in module.parameters(recurse=False))


def is_matrix(name: str, module: nn.Module) -> bool:
    """Whether a module multiplies by a matrix."""
    return isinstance(module, nn.Linear | nn.Conv2d)


def is_relu(name: str, module: nn.Module) -> bool:
    """Whether a module is a ReLU."""
    return isinstance(module, nn.ReLU)


def is_batch_norm(name: str, module: nn.Module) -> bool:
    """Whether a module is a batch norm with running statistics."""
    return isinstance(module, _BatchNorm) and module.track_running_stats


def is_batch_first(name: str, module: nn.Module) -> bool:
    """Whether a module is recurrent, and takes samples before time."""
    return isinstance(module, nn.RNNBase) and module.batch_first


def is_time_first(name: str, module: nn.Module) -> bool:
    """Whether a module is recurrent, and takes time before samples."""
    return isinstance(module, nn.RNNBase) and not module.batch_first


def attends(name: str, module: nn.Module) -> bool:
    """Whether a module's forward is an attention."""
    return "Attention" in type(module).__name__


def routes(name: str, module: nn.Module) -> bool:
    """Whether a module chooses experts."""
    return type(module).__name__ == "Router"


CFG: Cfg = {
    is_whole: ["LearningRate"],
    is_leaf: ["NonFinite", "OutputGradNonFinite", "OutputRMS", "OutputAbsMax", "OutputGradRMS"],
    has_parameters: [
        "InputRMS",
        "ParameterNorm",
        "ParameterRMS",
        "ParameterGradNorm",
        "UpdateRatio",
    ],
    is_matrix: [
        "WeightNorm",
        "WeightGradNorm",
        ["ParticipationRatio", every(10)],
        ["WeightGradAgreement", every(10)],
        ["WeightGradExcess", every(10)],
    ],
    is_relu: ["DeadNeuronRatio"],
    attends: [
        "AttentionLogitMax",
        ["AttentionEntropy", every(1), {"normalized": True}],
        "AttentionAhead",
        "AttentionAllowed",
    ],
    is_batch_first: [
        ["OutputGradSampleRate", every(1), {"axis": 0}],
        ["OutputGradSampleSpread", every(1), {"axis": 0}],
    ],
    is_time_first: [
        ["OutputGradSampleRate", every(1), {"axis": 1}],
        ["OutputGradSampleSpread", every(1), {"axis": 1}],
    ],
    routes: ["RouterLoad", "RouterEntropy", ["DeadExperts", every(1), {"window": "due"}]],
    is_batch_norm: ["WeightNorm", "WeightGradNorm", "MeanTID", "VarTID"],
}
