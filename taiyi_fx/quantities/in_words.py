"""A few words on each quantity, for tables of runs, which are read without declarations."""

from __future__ import annotations

_PLACES = {
    "Input": (
        "the input",
        "AbsMax CovCondition CovCondition20 CovCondition50 CovCondition80 CovMaxEig "
        "CovStableRank Fingerprint Histogram Kurtosis Mean NonFinite OverflowRate "
        "ParticipationRatio Quantiles RMS SQNR SndNorm Std UnderflowRate",
    ),
    "": (
        "the output",
        "Fingerprint Histogram Kurtosis NonFinite OverflowRate ParticipationRatio Quantiles "
        "UnderflowRate",
    ),
    "Output": ("the output", "AbsMax ActivationRate DeathRate Norm RMS SQNR Variation"),
    "OutputGrad": (
        "the output's gradient",
        "AbsMax Correlation CovCondition CovCondition20 CovCondition50 CovCondition80 CovMaxEig "
        "CovStableRank Fingerprint Histogram Kurtosis NonFinite Norm OverflowRate "
        "ParticipationRatio Quantiles RMS SQNR SampleRate SampleSpread SndNorm UnderflowRate",
    ),
    "Weight": (
        "the weight",
        "Alpha Histogram Image Kurtosis Norm OverflowRate ParamJump Quantiles SQNR SpectralNorm "
        "StableRank UnderflowRate",
    ),
    "WeightGrad": (
        "the weight's gradient",
        "Histogram Kurtosis Norm OverflowRate Quantiles SQNR UnderflowRate",
    ),
    "Parameter": ("a parameter", "Condition Fingerprint Norm RMS"),
    "ParameterGrad": (
        "a parameter's gradient",
        "ActivationRate Correlation DeathRate Fingerprint Norm RMS",
    ),
    "ParameterUpdate": ("a parameter's step", "Correlation Norm RMS"),
    "Forward": ("the values", "Input InputEigOfCov Output"),
    "Backward": ("the gradient", "Input Output OutputEigOfCov"),
}
"""What the beginning of a name says, and what is measured there: no names but those declared."""

_MEASURES = {
    "AbsMax": "largest value of",
    "Mean": "mean of",
    "RMS": "usual size of",
    "SndNorm": "norm of",
    "Std": "spread of",
    "Norm": "norm of",
    "ActivationRate": "share active of",
    "DeathRate": "share never active of",
    "Variation": "how much rows differ in",
    "Fingerprint": "hash of",
    "Correlation": "cosine with the last one, of",
    "SampleRate": "share of samples with",
    "SampleSpread": "differences of samples in",
    "Histogram": "histogram of",
    "Kurtosis": "outliers, as kurtosis of",
    "NonFinite": "NaN and Inf in",
    "OverflowRate": "share too large for a format, of",
    "UnderflowRate": "share too small for a format, of",
    "Quantiles": "quantiles of",
    "SQNR": "precision in a format, of",
    "CovCondition": "condition of covariance, of",
    "CovCondition20": "condition of covariance, of",
    "CovCondition50": "condition of covariance, of",
    "CovCondition80": "condition of covariance, of",
    "CovMaxEig": "largest variance, of",
    "CovStableRank": "stable rank of",
    "ParticipationRatio": "directions used by",
    "Condition": "condition of",
    "SpectralNorm": "largest singular value of",
    "StableRank": "stable rank of",
    "Alpha": "power law of the spectrum of",
    "Image": "picture of",
    "ParamJump": "signs flipped in",
    "Input": "copy at the input, of",
    "Output": "copy at the output, of",
    "InputEigOfCov": "eigenvalues at the input, of",
    "OutputEigOfCov": "eigenvalues at the output, of",
}
"""What the rest of a name says."""

_OTHERS = {
    "WeightGradAgreement": "cosine with backward's own gradient",
    "WeightGradExcess": "size beside backward's own gradient",
    "OutlierFeatures": "features far larger than usual",
    "DeadNeuronRatio": "share of dead units",
    "LinearDeadNeuronNum": "share of dead units",
    "AttentionAhead": "weight given to later keys",
    "AttentionAllowed": "share of keys that are seen",
    "AttentionDistance": "distance to the keys it looks at",
    "AttentionEntropy": "how evenly keys are weighed",
    "AttentionLogitMax": "largest logit of attention",
    "AttentionSink": "weight given to the first key",
    "HeadNorm": "usual size of heads",
    "MeanTID": "mean: batches beside eval mode",
    "VarTID": "spread: batches beside eval mode",
    "BackwardTime": "seconds of backward",
    "ForwardTime": "seconds of forward",
    "SavedBytes": "bytes kept for backward",
    "PaddingRate": "share of padding",
    "DeadExperts": "share of experts never chosen",
    "RouterEntropy": "how evenly experts are chosen",
    "RouterLoad": "share of choices of each expert",
    "FeatureMap": "picture of the output",
    "LogitLens": "uncertainty of what it predicts",
    "Loss": "the loss that it returns",
    "GradientNoiseScale": "batch size of as much noise",
    "PerSampleGradNorm": "gradient of each sample",
    "EffectiveStep": "usual step of an element",
    "FirstMoment": "optimizer's mean gradient",
    "SecondMoment": "optimizer's mean square gradient",
    "UpdateLost": "share of steps rounded away",
    "UpdateRatio": "step beside the parameter's size",
    "RankMe": "effective rank of the output",
    "FisherCondition": "condition of the Fisher block",
    "ClippedBy": "share that clipping takes",
    "GradNorm": "norm of all gradients",
    "LearningRate": "learning rate of the next step",
    "LossSpike": "deviations of the loss",
}

_WORDS = _OTHERS | {
    f"{beginning}{measure}": f"{_MEASURES[measure]} {place}"
    for beginning, (place, measures) in _PLACES.items()
    for measure in measures.split()
}


def in_words(quantity: str) -> str:
    """A quantity in a few words; empty for one of a user's own.

    Args:
        quantity: Its name in records, which may be that of a part, as ``"UpdateRatio.bias"``.
    """
    return _WORDS.get(quantity.partition(".")[0], "")
