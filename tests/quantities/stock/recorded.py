"""Values of one entry of a configuration, recorded of a single layer."""

from torch import nn

import taiyi_fx


def recorded(layer, entry, *steps, backward=False):
    """The values by step, where each step is the batches before one ``track``."""
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": [entry]})
    for step, x in enumerate(steps):
        y = model(x)
        if backward:
            y.sum().backward()
        model.monitor.track(step)
    (values,) = model.monitor.get_output()["0"].values() or [{}]
    return values
