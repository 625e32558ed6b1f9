"""The presets that the package brings, as data.

What they ask for is what the rules of `taiyi_fx.findings` look at. One schedule serves all of it:
few sets of due readings make few compilations, and steps between cost next to nothing.
"""

from __future__ import annotations

from taiyi_fx.config.presets import kinds
from taiyi_fx.config.presets.preset import Part, Preset, Presets
from taiyi_fx.suggestion import suggestion

SCHEDULE = "adaptive(100, 20)"
SELDOM = "at_steps(0, 4, 16, 67, 270, 1080, 4072, 16088)"
"""Of what takes as long as the layer itself, and is mostly wrong from the start if at all."""

_WHOLE = Part(
    "the model itself",
    kinds.is_model,
    (["GradNorm", SCHEDULE], ["LearningRate", SCHEDULE], ["LossSpike", SCHEDULE]),
)
_VALUES = Part(
    "modules without parts",
    kinds.is_leaf,
    tuple([name, SCHEDULE] for name in ("OutputRMS", "OutputAbsMax", "OutputGradRMS", "NonFinite")),
)
_INPUTS = Part(
    "modules with parameters, that take numbers", kinds.takes_numbers, (["InputRMS", SCHEDULE],)
)
_INDICES = Part(
    "embeddings, of the indices that they are given",
    kinds.is_embedding,
    (["InputMean", SCHEDULE], ["InputStd", SCHEDULE]),
)
_OF_WEIGHTS = (
    ["WeightNorm", SCHEDULE],
    ["WeightGradNorm", SCHEDULE],
    ["ParameterRMS", SCHEDULE],
    # Of a part: a copy of all parameters would double a large model's memory.
    ["UpdateRatio", SCHEDULE, {"param": "weight", "max_elements": 4096}],
)
_WEIGHTS = Part("modules with a weight", kinds.has_weight, _OF_WEIGHTS)
_TRAINED = Part("modules with a weight that is trained", kinds.trains_weight, _OF_WEIGHTS)
_HALF = Part(
    "modules with a weight in half precision that is trained",
    kinds.trains_half,
    (["UpdateLost", SCHEDULE, {"param": "weight", "max_elements": 2**16}],),
)
_MATRICES = Part(
    "linear layers and convolutions of at most 2**16 elements",
    kinds.is_small_matrix,
    tuple(
        [name, SELDOM]
        for name in (
            "WeightGradAgreement",
            "WeightGradExcess",
            "ParticipationRatio",
            "OutputVariation",
        )
    ),
)
_NARROW = Part(
    "modules with a weight in float16 that is trained",
    kinds.trains_float16,
    (["SecondMoment", SCHEDULE, {"param": "weight"}],),
)
_PARAMETERS = Part(
    "modules with other parameters",
    kinds.has_other_parameters,
    (
        ["ParameterNorm", SCHEDULE],
        ["ParameterRMS", SCHEDULE],
        ["ParameterGradNorm", SCHEDULE],
        ["UpdateRatio", SCHEDULE, {"max_elements": 4096}],
    ),
)
_RECTIFIERS = Part("ReLUs", kinds.is_rectifier, (["DeadNeuronRatio", SCHEDULE],))
_BATCH_NORMS = Part(
    "BatchNorms with running statistics",
    kinds.is_batch_norm,
    (["MeanTID", SCHEDULE, {"window": "due"}], ["VarTID", SCHEDULE, {"window": "due"}]),
)

_SEQUENCES = Part(
    "recurrent layers and attentions of torch, by the axis that they take for the batch",
    kinds.is_sequential,
    (["OutputGradSampleRate", SCHEDULE],),
    kinds.samples_of,
)
_RECURRENT = Part(
    "recurrent layers of torch, likewise",
    kinds.is_recurrent,
    (["OutputGradSampleSpread", SCHEDULE],),
    kinds.samples_of,
)
_ATTENTION = Part(
    "modules whose forward attends",
    kinds.is_any,
    (
        *(
            # Of a few queries, by one reading: all would take as long as the attention itself.
            [name, SCHEDULE, {"queries": 16, **options}]
            for name, options in (
                ("AttentionLogitMax", {}),
                ("AttentionEntropy", {"normalized": True}),
                ("AttentionSink", {}),
                ("AttentionAhead", {}),
                ("AttentionAllowed", {}),
            )
        ),
        ["HeadNorm", SCHEDULE],
    ),
)
_BLOCKS = Part("blocks", kinds.is_block, (["OutlierFeatures", SCHEDULE],))
_PADDING = Part(
    "embeddings with a padding_idx",
    kinds.pads,
    (["PaddingRate", SCHEDULE],),
    kinds.padding_of,
)
_OF_ROUTERS = (
    ["RouterLoad", SCHEDULE],
    ["RouterEntropy", SCHEDULE, {"normalized": True}],
    ["DeadExperts", SCHEDULE, {"window": "due"}],
)
_ROUTERS = Part("routers that say how many experts they have", kinds.is_router, _OF_ROUTERS)
_GATES = Part(
    "linear layers that route, beside their experts",
    kinds.is_linear,
    _OF_ROUTERS,
    kinds.routing_of,
)

_COMMON = (
    _WHOLE,
    _VALUES,
    _INPUTS,
    _INDICES,
    _WEIGHTS,
    _MATRICES,
    _HALF,
    _NARROW,
    _PARAMETERS,
    _RECTIFIERS,
    _SEQUENCES,
    _RECURRENT,
)
_OF_ADAPTERS = (_WHOLE, _VALUES, _INPUTS, _TRAINED, _HALF, _NARROW, _PARAMETERS)

PRESETS = {
    of.name: of
    for of in (
        Preset(
            "transformer",
            "models with attention, or of linear and norm layers",
            (*_COMMON, _ATTENTION, _BLOCKS, _PADDING),
        ),
        Preset("convolutional", "models of convolutions", (*_COMMON, _BATCH_NORMS)),
        Preset("recurrent", "models with LSTM, GRU and the like", (*_COMMON, _ATTENTION, _PADDING)),
        Preset(
            "experts",
            "mixtures of experts",
            (*_COMMON, _ATTENTION, _BLOCKS, _PADDING, _ROUTERS, _GATES),
        ),
        Preset("adapters", "large models trained by adapters, such as LoRA", _OF_ADAPTERS),
        Preset("gan", "a generator and a discriminator", (*_COMMON, _BATCH_NORMS)),
        Preset("mlp", "all other models", (*_COMMON, _BATCH_NORMS)),
    )
}
"""By name."""


def preset(name: str) -> Preset:
    """The preset of a name.

    Raises:
        LookupError: There is none of this name.
    """
    if name not in PRESETS:
        raise LookupError(f"no preset is named {name!r}.{suggestion(name, [*PRESETS])}")
    return PRESETS[name]


def presets() -> Presets:
    """All presets: their names, the models that each is for, and what it asks for."""
    return Presets(PRESETS.values())
