"""The quantities that rules look at: of these, findings say what is odd, and marks alone do not.

Of shares of what is in trouble, rules look at all.
"""

JUDGED = frozenset(
    "AttentionAhead AttentionAllowed AttentionEntropy AttentionLogitMax AttentionSink HeadNorm "
    "InputMean InputRMS InputStd MeanTID OutlierFeatures OutputAbsMax OutputGradRMS "
    "OutputGradSampleRate OutputGradSampleSpread OutputGradSndNorm OutputRMS OutputVariation "
    "PaddingRate ParameterGradNorm ParameterNorm ParameterRMS ParticipationRatio RankMe "
    "RouterEntropy RouterLoad SecondMoment UpdateLost UpdateRatio VarTID WeightGradAgreement "
    "WeightGradExcess WeightGradNorm WeightNorm WeightSpectralNorm WeightStableRank".split()
)
