"""Values of one entry of a configuration, recorded of a single layer."""

from torch import nn

import taiyi_fx
from taiyi_fx.testing import Conv2dLike, LinearLike


def recorded(layer, entry, *steps, backward=False):
    """The values by step, where each step is the batches before one ``track``."""
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": [entry]})
    for step, x in enumerate(steps):
        y = model(x)
        if backward:
            y.sum().backward()
        model.monitor.track(step)
    (values,) = model.monitor.get_output().get("0", {"": {}}).values()
    return values


def bench(entry, x):
    """What an entry records for a module that is given ``x``."""
    layer = Conv2dLike() if x.ndim == 4 else LinearLike()
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": [entry]})
    model(x)
    model.monitor.track(0)
    return model.monitor.get_output()["0"][entry if isinstance(entry, str) else entry[0]][0]
