"""The stock of mergeable reductions: statistics that probes keep in place of a tensor."""

from taiyi_fx.reductions.attention import (
    AttentionValue,
    AttentionWeights,
    HeadSquares,
    HeadSquaresValue,
)
from taiyi_fx.reductions.backward_time import BackwardSeconds
from taiyi_fx.reductions.elements import (
    AbsMax,
    Count,
    NonFinites,
    NonFinitesValue,
    Norm,
    SampleNorms,
    SampleNormsValue,
    Scalar,
    ScalarValue,
    SquareSum,
)
from taiyi_fx.reductions.features import (
    Activity,
    ActivityValue,
    FeatureMax,
    FeatureNorms,
    FeatureNormsValue,
)
from taiyi_fx.reductions.fingerprints import Fingerprint, FingerprintValue, fingerprint
from taiyi_fx.reductions.lens import Lens, LensValue
from taiyi_fx.reductions.magnitudes import (
    Format,
    Histogram,
    OutOfRange,
    OutOfRangeValue,
    Quantiles,
    QuantilesValue,
    histogram_edges,
)
from taiyi_fx.reductions.maps import Maps
from taiyi_fx.reductions.moments import (
    BatchMoments,
    FourthMoment,
    KurtosisValue,
    Moments,
    MomentsValue,
)
from taiyi_fx.reductions.number_formats import NumberFormat
from taiyi_fx.reductions.padding import Padding, PaddingValue
from taiyi_fx.reductions.per_sample import Noise, NoiseValue, PerSample, PerSampleValue
from taiyi_fx.reductions.quantization import NoiseOfFormat, NoiseOfFormatValue
from taiyi_fx.reductions.raw import Parts, Raw, Sample, Sign
from taiyi_fx.reductions.routing import Routing, RoutingValue
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix
from taiyi_fx.reductions.samples import (
    SamplesReached,
    SamplesReachedValue,
    SampleVariance,
    SampleVarianceValue,
)
from taiyi_fx.reductions.spans import ForwardSeconds, SavedBytes, looks_at_saved_tensors
from taiyi_fx.reductions.spectra import (
    MatrixSingular,
    MatrixSingularValues,
    Singular,
    SingularValues,
    Spectrum,
    SpectrumValue,
)
from taiyi_fx.reductions.steps import StepOfParameter, StepValue
from taiyi_fx.reductions.summary import Summary, SummaryValue
from taiyi_fx.reductions.sums import ratio
from taiyi_fx.reductions.weight_matrix import MatrixValue, WeightMatrix

__all__ = [
    "AbsMax",
    "Activity",
    "ActivityValue",
    "AttentionValue",
    "AttentionWeights",
    "BackwardSeconds",
    "BatchMoments",
    "Count",
    "FeatureAxis",
    "FeatureMax",
    "FeatureNorms",
    "FeatureNormsValue",
    "Fingerprint",
    "FingerprintValue",
    "Format",
    "ForwardSeconds",
    "FourthMoment",
    "HeadSquares",
    "HeadSquaresValue",
    "Histogram",
    "KurtosisValue",
    "Lens",
    "LensValue",
    "Maps",
    "MatrixSingular",
    "MatrixSingularValues",
    "MatrixValue",
    "Moments",
    "MomentsValue",
    "Noise",
    "NoiseOfFormat",
    "NoiseOfFormatValue",
    "NoiseValue",
    "NonFinites",
    "NonFinitesValue",
    "Norm",
    "NumberFormat",
    "OutOfRange",
    "OutOfRangeValue",
    "Padding",
    "PaddingValue",
    "Parts",
    "PerSample",
    "PerSampleValue",
    "Quantiles",
    "QuantilesValue",
    "Raw",
    "Routing",
    "RoutingValue",
    "Sample",
    "SampleNorms",
    "SampleNormsValue",
    "SampleVariance",
    "SampleVarianceValue",
    "SamplesReached",
    "SamplesReachedValue",
    "SavedBytes",
    "Scalar",
    "ScalarValue",
    "Sign",
    "Singular",
    "SingularValues",
    "Spectrum",
    "SpectrumValue",
    "SquareSum",
    "StepOfParameter",
    "StepValue",
    "Summary",
    "SummaryValue",
    "WeightMatrix",
    "accumulated",
    "as_matrix",
    "fingerprint",
    "histogram_edges",
    "looks_at_saved_tensors",
    "ratio",
]
