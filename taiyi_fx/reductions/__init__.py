"""The stock of mergeable reductions: what probes keep of a tensor instead of the tensor."""

from taiyi_fx.reductions.elements import (
    AbsMax,
    Count,
    Norm,
    SampleNorms,
    SampleNormsValue,
    SquareSum,
)
from taiyi_fx.reductions.features import Activity, ActivityValue, FeatureMax
from taiyi_fx.reductions.moments import Moments, MomentsValue
from taiyi_fx.reductions.raw import Raw, Sign
from taiyi_fx.reductions.rows import FeatureAxis, accumulated, as_matrix
from taiyi_fx.reductions.spectra import Singular, SingularValues, Spectrum, SpectrumValue

__all__ = [
    "AbsMax",
    "Activity",
    "ActivityValue",
    "Count",
    "FeatureAxis",
    "FeatureMax",
    "Moments",
    "MomentsValue",
    "Norm",
    "Raw",
    "SampleNorms",
    "SampleNormsValue",
    "Sign",
    "Singular",
    "SingularValues",
    "Spectrum",
    "SpectrumValue",
    "SquareSum",
    "accumulated",
    "as_matrix",
]
