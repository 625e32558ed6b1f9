"""Fingerprints: two runs part where these first differ, by so little as one bit.

Of the output, with siblings for the input, gradients and parameters.
"""

from __future__ import annotations

from torch import Tensor

from taiyi_fx.quantities.declare import Elsewhere, also_at, quantity
from taiyi_fx.quantities.places import input, output, output_grad, parameter, parameter_grad
from taiyi_fx.reductions import FingerprintValue


@quantity("Fingerprint", unit="bits", accuracy="exact", batched=True, found=output.fingerprint)
def fingerprint(found: FingerprintValue) -> dict[str, Tensor]:
    """Hash of all bits of the output and of their places, equal on all devices for equal bits.

    A number of 64 bits as two of 32, ``.high`` and ``.low``, each of which a float64 holds exactly;
    `taiyi_fx.fingerprint` gives the whole of a tensor at hand. Batches count in order, as one that
    is longer. Gradients are those that flow: a loss scale is not taken off.

    Formula: sum over i of mix(bits_i) b^(i+1) modulo 2^64
    """
    return {"high": found.high, "low": found.low}


also_at(
    fingerprint,
    {
        "InputFingerprint": Elsewhere(input, "the input", "x"),
        "OutputGradFingerprint": Elsewhere(output_grad, "the output's gradient", "g_y"),
        "ParameterFingerprint": Elsewhere(parameter, "each named parameter", "p"),
        "ParameterGradFingerprint": Elsewhere(
            parameter_grad, "each parameter's gradient", "p.grad"
        ),
    },
)
