"""Presets: configurations that fit a kind of model, as declarations."""

from taiyi_fx.config.presets.fitting import fitting
from taiyi_fx.config.presets.preset import OptionsOf, Part, Preset, Presets
from taiyi_fx.config.presets.stock import PRESETS, preset, presets

__all__ = ["PRESETS", "OptionsOf", "Part", "Preset", "Presets", "fitting", "preset", "presets"]
