"""What each quantity is checked with: one line each in `PROOFS`, where a new one needs its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

from taiyi_fx.testing import (
    Conv2dLike,
    LinearLike,
    ModuleRecipe,
    PlainLike,
    Seen,
    TensorRecipe,
    modules,
    tensors,
)
from tests.quantities.references.attention import (
    FEATURES,
    HEADS,
    OwnSoftmax,
    SelfAttention,
    ahead,
    allowed,
    distance,
    entropy,
    head_norm,
    logit_floor,
    logit_max,
    of,
    sink,
    weight_floor,
)
from tests.quantities.references.batchnorm import tid
from tests.quantities.references.elements import (
    activation_rate,
    dead_share,
    death_rate,
    largest,
    mean,
    mean_floor,
    norm,
    outliers,
    outliers_floor,
    raw,
    rms,
    sample_norms,
    std,
)
from tests.quantities.references.experts import EXPERTS, Router, dead, load, load_entropy
from tests.quantities.references.fingerprints import fingerprint, fingerprints
from tests.quantities.references.health import (
    LIMITS,
    histogram,
    kurtosis,
    loss,
    non_finite,
    or_none,
    out_of_range,
    quantiles,
    quantiles_floor,
)
from tests.quantities.references.images import feature_map, weight_image
from tests.quantities.references.noise import (
    agreement,
    agreement_floor,
    excess,
    noise_floor,
    noise_scale,
    per_sample_norms,
)
from tests.quantities.references.parameters import (
    correlation,
    correlation_floor,
    gradient_correlation,
    matrix_condition,
    matrix_condition_floor,
    of_each,
    sign_flips,
    unit_rate,
    update_correlation,
    update_floor,
    update_ratio,
    update_size,
    weight_grad_norm,
    weight_norm,
)
from tests.quantities.references.samples import padding_rate, sample_rate, sample_spread
from tests.quantities.references.spectra import (
    condition,
    condition_floor,
    eigenvalues,
    fisher,
    fisher_floor,
    max_eigenvalue,
    output_variation,
    participation_ratio,
    rank_me,
    rank_me_floor,
    spectrum_floor,
    stable_rank,
)
from tests.quantities.references.weights import spectral_norm, weight_stable_rank


@dataclass(frozen=True)
class Proof:
    """What a quantity is checked with.

    Attributes:
        reference: What is right.
        floor: The absolute error allowed, where digits cancel.
        options: Options that are tried.
        tensors: What is put through, if not anything.
        modules: What it is put through, if not the modules of the kit.
        is_split: Whether it is that of all rows, however they are split.
        any_order: Whether parts can be merged in any order.
        not_compiled: Why it cannot be had in compiled code, if so.
    """

    reference: Callable[[Seen], Any]
    floor: Callable[[Seen], Any] | None = None
    options: Mapping[str, Any] | st.SearchStrategy[Mapping[str, Any]] | None = None
    tensors: st.SearchStrategy[TensorRecipe] | None = None
    modules: st.SearchStrategy[ModuleRecipe] | None = None
    is_split: bool = True
    any_order: bool = True
    not_compiled: str | None = None


def some(**choices):
    """Options: each left out, or one of those given."""
    optional = {name: st.sampled_from(values) for name, values in choices.items()}
    return st.fixed_dictionaries({}, optional=optional)


REDUCE = some(reduce=["all", "feature"], feature_axis=[1, -1])
CENTERED = some(centered=[True, False], feature_axis=[1, -1])
BOUND = some(max_elements=[1, 4, 7, 1000])
VARIANT = some(variant=["norm", "paper"])
QUANTILES = some(q=[(0.0, 0.5, 1.0), (0.3,)], exact=[True, False])
FORMATS = some(format=list(LIMITS))
LAYERS = modules(
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.Embedding
)
ORDINARY = tensors(kinds=("full", "sparse", "zero"), scales=(1.0, 1e3, 1e-3))
PLACES = {
    "Input": "x",
    "": "y",
    "OutputGrad": "g_y",
    "Weight": "weight",
    "WeightGrad": "weight_grad",
}
MODEST = tensors(kinds=("full", "sparse", "zero"), scales=(1.0, 1e-3))
NO_CALLS = "these modules stay Python, where compiled code shows no calls of functions"
ATTENTIONS = st.builds(
    lambda kind, length, dtype, args: ModuleRecipe(
        kind, args, shape=(length, 3 * HEADS * FEATURES), dtype=dtype
    ),
    st.sampled_from([SelfAttention, OwnSoftmax]),
    st.integers(1, 6),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([(True,), (False,), (False, "bool"), (False, "bias"), (False, "causal")]),
)
OUTPUTS = ATTENTIONS.filter(lambda recipe: recipe.kind is SelfAttention)
OF_ATTENTION = {"modules": ATTENTIONS, "tensors": MODEST, "not_compiled": NO_CALLS}
ROUTERS = st.builds(
    lambda returns, length, dtype: ModuleRecipe(
        Router, (returns,), shape=(length, EXPERTS), dtype=dtype
    ),
    st.sampled_from(["logits", "choices", "choices alone", "mask", "dispatch"]),
    st.integers(1, 7),
    st.sampled_from([torch.float32, torch.float64]),
)
# Of equal logits anyone may be chosen.
OF_ROUTERS = {"modules": ROUTERS, "tensors": tensors(kinds=("full",), scales=(1.0, 1e3))}
BY_HEAD = some(reduce=["all", "head"])
ONE_CALL = tensors(
    st.tuples(st.just(1), st.integers(1, 5), st.integers(1, 3)),
    kinds=("full", "sparse", "zero"),
    scales=(1.0, 1e3),
)
IMAGES = tensors(st.tuples(*[st.integers(1, n) for n in (3, 5, 4, 3)]))
MAPS = st.builds(
    lambda kind, shape, dtype: ModuleRecipe(kind, shape=shape, dtype=dtype),
    st.sampled_from([Conv2dLike, LinearLike, PlainLike]),
    st.tuples(*[st.integers(1, n) for n in (5, 4, 3)]),
    st.sampled_from([torch.float32, torch.float64, torch.float16]),
)
RAW_GRADIENT = "gradients themselves are not kept in compiled code"


def conditioned(name, p=None, options=CENTERED):
    return Proof(condition(name, p), floor=condition_floor(name, p), options=options)


PROOFS = {
    "InputSndNorm": Proof(lambda s: norm(s.x)),
    "InputMean": Proof(mean, floor=mean_floor, options=REDUCE),
    "InputStd": Proof(std, options=REDUCE),
    "InputRMS": Proof(lambda s: rms(s.x)),
    "OutputRMS": Proof(lambda s: rms(s.y)),
    "OutputNorm": Proof(sample_norms, options=some(normalize=[True, False])),
    "OutputAbsMax": Proof(lambda s: largest(s.y)),
    "OutlierFeatures": Proof(outliers, floor=outliers_floor, options=some(factor=[1.5], feature_axis=[1, -1])),
    "OutputActivationRate": Proof(activation_rate, options=some(reduce=["all", "feature"], eps=[0.0, 0.5])),
    "OutputDeathRate": Proof(death_rate, options=some(eps=[0.0, 0.5])),
    "LinearDeadNeuronNum": Proof(dead_share(-2.0), options=some(threshold=[-0.5, 0.5])),
    "DeadNeuronRatio": Proof(dead_share(0.0), options=some(threshold=[-0.5, 0.5])),
    "OutputGradSndNorm": Proof(lambda s: norm(s.g_y)),
    "OutputGradNorm": Proof(lambda s: norm(s.g_y)),
    "OutputGradRMS": Proof(lambda s: rms(s.g_y)),
    "OutputGradAbsMax": Proof(lambda s: largest(s.g_y)),
    "OutputGradCorrelation": Proof(correlation, floor=correlation_floor, any_order=False, not_compiled=RAW_GRADIENT),
    "PaddingRate": Proof(padding_rate, tensors=ORDINARY),
    "OutputGradSampleRate": Proof(sample_rate, tensors=ORDINARY),
    "OutputGradSampleSpread": Proof(sample_spread, tensors=ONE_CALL, is_split=False, options=some(axis=[0, 1]), floor=lambda s: 1e-6),
    "InputCovMaxEig": Proof(max_eigenvalue("x"), options=CENTERED),
    "InputCovStableRank": Proof(stable_rank("x"), options=CENTERED),
    "InputCovCondition": conditioned("x", options=some(centered=[True, False], p=[0.0, 0.3, 0.99])),
    "InputCovCondition20": conditioned("x", 0.2),
    "InputCovCondition50": conditioned("x", 0.5),
    "InputCovCondition80": conditioned("x", 0.8),
    "OutputGradCovMaxEig": Proof(max_eigenvalue("g_y"), options=CENTERED),
    "OutputGradCovStableRank": Proof(stable_rank("g_y"), options=CENTERED),
    "OutputGradCovCondition": conditioned("g_y", options=some(centered=[True, False], p=[0.0, 0.3, 0.99])),
    "OutputGradCovCondition20": conditioned("g_y", 0.2),
    "OutputGradCovCondition50": conditioned("g_y", 0.5),
    "OutputGradCovCondition80": conditioned("g_y", 0.8),
    "ForwardInputEigOfCov": Proof(eigenvalues("x"), floor=spectrum_floor("x"), options=CENTERED),
    "BackwardOutputEigOfCov": Proof(eigenvalues("g_y"), floor=spectrum_floor("g_y"), options=CENTERED),
    "ParameterNorm": Proof(of_each(lambda p, name, s: norm(p))),
    "ParameterRMS": Proof(of_each(lambda p, name, s: rms(p))),
    "ParameterGradNorm": Proof(of_each(lambda g, name, s: norm(g), "gradients")),
    "ParameterGradRMS": Proof(of_each(lambda g, name, s: rms(g), "gradients")),
    "ParameterFingerprint": Proof(fingerprints("parameters"), any_order=False),
    "ParameterGradFingerprint": Proof(fingerprints("gradients"), is_split=False),
    "ParameterGradCorrelation": Proof(of_each(gradient_correlation, "gradients"), floor=update_floor),
    "ParameterGradActivationRate": Proof(of_each(unit_rate(False), "gradients"), options=some(eps=[0.5])),
    "ParameterGradDeathRate": Proof(of_each(unit_rate(True), "gradients"), options=some(eps=[0.5])),
    "ParameterUpdateNorm": Proof(of_each(update_size(norm))),
    "ParameterUpdateRMS": Proof(of_each(update_size(rms))),
    "ParameterUpdateCorrelation": Proof(of_each(update_correlation), floor=update_floor),
    "UpdateRatio": Proof(of_each(update_ratio)),
    "ParameterCondition": Proof(of_each(matrix_condition), floor=matrix_condition_floor),
    "Loss": Proof(loss, is_split=False, tensors=tensors(shapes=st.tuples(st.just(1)))),
    "PerSampleGradNorm": Proof(per_sample_norms, modules=LAYERS, tensors=ORDINARY, options=some(reduce=["none", "mean", "max"]),
        not_compiled="a number for each sample is not kept in compiled code", any_order=False),
    "GradientNoiseScale": Proof(noise_scale, floor=noise_floor, modules=LAYERS, tensors=ORDINARY),
    "AttentionLogitMax": Proof(of(logit_max), floor=logit_floor, **OF_ATTENTION, options=BY_HEAD),
    "AttentionEntropy": Proof(of(entropy), floor=weight_floor, **OF_ATTENTION, options=some(reduce=["all", "head"], normalized=[True, False])),
    "AttentionSink": Proof(of(sink), floor=weight_floor, **OF_ATTENTION, options=BY_HEAD),
    "AttentionDistance": Proof(of(distance), floor=weight_floor, **OF_ATTENTION, options=BY_HEAD),
    "AttentionAhead": Proof(of(ahead), floor=weight_floor, **OF_ATTENTION, options=BY_HEAD),
    "AttentionAllowed": Proof(of(allowed), **OF_ATTENTION, options=BY_HEAD),
    "HeadNorm": Proof(head_norm, modules=OUTPUTS, tensors=ORDINARY, options=BY_HEAD, not_compiled=NO_CALLS),
    "RouterLoad": Proof(load, **OF_ROUTERS),
    "RouterEntropy": Proof(load_entropy, **OF_ROUTERS, options=some(normalized=[True, False])),
    "DeadExperts": Proof(dead, **OF_ROUTERS),
    "WeightGradAgreement": Proof(agreement, floor=agreement_floor, modules=LAYERS, tensors=ORDINARY),
    "WeightGradExcess": Proof(excess, floor=agreement_floor, modules=LAYERS, tensors=ORDINARY),
    "FisherCondition": Proof(fisher, floor=fisher_floor),
    "OutputVariation": Proof(output_variation, options=some(feature_axis=[1, -1])),
    "RankMe": Proof(rank_me, floor=rank_me_floor),
    "MeanTID": Proof(tid("mean"), options=VARIANT, is_split=False),
    "VarTID": Proof(tid("var"), options=VARIANT, is_split=False),
    "WeightSpectralNorm": Proof(spectral_norm),
    "WeightStableRank": Proof(weight_stable_rank),
    "WeightNorm": Proof(weight_norm, options=some(param=["weight", "all"])),
    "WeightGradNorm": Proof(weight_grad_norm, options=some(param=["weight", "all"])),
    "WeightParamJump": Proof(sign_flips),
    "FeatureMap": Proof(feature_map, options=some(samples=[1, 2], channels=[1, 3], feature_axis=[1, -1]), modules=MAPS, any_order=False),
    "WeightImage": Proof(weight_image, options=some(inputs=[1, 3], outputs=[1, 2]), tensors=IMAGES),
    "ForwardInput": Proof(raw("x"), options=BOUND, any_order=False),
    "ForwardOutput": Proof(raw("y"), options=BOUND, any_order=False),
    "BackwardInput": Proof(raw("g_x"), options=BOUND, any_order=False, not_compiled=RAW_GRADIENT),
    "BackwardOutput": Proof(raw("g_y"), options=BOUND, any_order=False, not_compiled=RAW_GRADIENT),
}  # fmt: skip

OF_WHOLE_MODEL = ("GradNorm", "ClippedBy", "LearningRate", "LossSpike", "LogitLens")
"""No module alone has them: test_whole_model.py and test_lens.py in tests/quantities/stock do."""

OF_LARGE_WEIGHTS = ("WeightAlpha",)
"""Modules of the kit are too small: tests/quantities/stock/test_weight_spectra.py proves it."""

OF_FORMATS = ("InputSQNR", "OutputSQNR", "OutputGradSQNR", "WeightSQNR", "WeightGradSQNR")
"""Each tensor has scales of its own: tests/quantities/stock/test_precision.py proves them."""

OF_CALLS = ("ForwardTime", "BackwardTime", "SavedBytes")
"""They are of a call that runs, and of no tensor: tests/quantities/stock/test_costs.py proves them."""

OF_OPTIMIZERS = ("FirstMoment", "SecondMoment", "EffectiveStep", "UpdateLost")
"""They need an optimizer: tests/quantities/stock/test_optimizer.py proves them."""

for _prefix, _name in PLACES.items():
    PROOFS[f"{_prefix}UnderflowRate"] = Proof(
        or_none(_name, out_of_range(_name, "below")), options=FORMATS
    )
    PROOFS[f"{_prefix}OverflowRate"] = Proof(
        or_none(_name, out_of_range(_name, "above")), options=FORMATS
    )
    PROOFS[f"{_prefix}Kurtosis"] = Proof(or_none(_name, kurtosis(_name)))
    PROOFS[f"{_prefix}Histogram"] = Proof(or_none(_name, histogram(_name)))
    PROOFS[f"{_prefix}Quantiles"] = Proof(
        or_none(_name, quantiles(_name)),
        floor=or_none(_name, quantiles_floor(_name)),
        options=QUANTILES,
    )
for _prefix, _name in {"Input": "x", "": "y", "OutputGrad": "g_y"}.items():
    PROOFS[f"{_prefix}Fingerprint"] = Proof(
        fingerprint(_name), any_order=False, is_split=_name != "g_y"
    )
    PROOFS[f"{_prefix}NonFinite"] = Proof(non_finite(_name))
    PROOFS[f"{_prefix}ParticipationRatio"] = Proof(participation_ratio(_name), options=CENTERED)
for _prefix, _name in {"Input": "x"}.items():
    PROOFS[f"{_prefix}AbsMax"] = Proof(lambda s: largest(s.x))
