"""The tensors themselves and their whole spectra, by the seed's extension names."""

from __future__ import annotations

from torch import Tensor

from taiyi_fx.quantities.declare import Defined, quantity
from taiyi_fx.quantities.places import input, input_grad, output, output_grad
from taiyi_fx.reductions import SpectrumValue


@quantity("ForwardInput", accuracy="exact", x=input.raw)
def forward_input(x: Tensor) -> Tensor:
    """A copy of the input, several micro-batches joined; ``max_elements`` bounds it.

    Formula: x
    """
    return x


@quantity("ForwardOutput", accuracy="exact", y=output.raw)
def forward_output(y: Tensor) -> Tensor:
    """A copy of the output, several micro-batches joined; ``max_elements`` bounds it.

    Formula: y
    """
    return y


@quantity("BackwardInput", accuracy="exact", g=input_grad.raw)
def backward_input(g: Tensor) -> Tensor:
    """A copy of the gradient of this call's input; ``max_elements`` bounds it.

    Formula: g_x
    """
    return g


@quantity("BackwardOutput", accuracy="exact", g=output_grad.raw)
def backward_output(g: Tensor) -> Tensor:
    """A copy of the gradient of the output; ``max_elements`` bounds it.

    Formula: g_y
    """
    return g


@quantity("ForwardInputEigOfCov", accuracy="1e-4 of the largest", spectrum=input.spectrum)
def forward_input_eig_of_cov(spectrum: SpectrumValue) -> Defined:
    """All eigenvalues of the input's covariance, in descending order.

    Formula: lambda_1, ..., lambda_C
    """
    return Defined.of_any(spectrum.eigenvalues, spectrum.n, "rows")


@quantity("BackwardOutputEigOfCov", accuracy="1e-4 of the largest", spectrum=output_grad.spectrum)
def backward_output_eig_of_cov(spectrum: SpectrumValue) -> Defined:
    """All eigenvalues of the output gradient's covariance, in descending order.

    Formula: lambda_1, ..., lambda_C
    """
    return Defined.of_any(spectrum.eigenvalues, spectrum.n, "rows")
