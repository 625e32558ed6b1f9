"""The largest eigenvalue of a large matrix without the others."""

from __future__ import annotations

import torch
from torch import Tensor

_TOLERANCE = 1e-5
_ITERATIONS = 96


def largest_eigenvalue(matrix: Tensor) -> Tensor:
    """The largest eigenvalue of a symmetric positive semidefinite matrix, in float64.

    By Lanczos' iteration with full reorthogonalisation, until the residual bounds the relative
    error by 1e-5; then the error is mostly its square. A matrix that needs more than 96
    iterations is decomposed. Looks at the host, so it belongs off the step's path.
    """
    n, matrix = len(matrix), matrix.double()
    # Fixed, so that a value depends on nothing else, and the user's random numbers stay theirs.
    q = torch.cos(torch.arange(n, device=matrix.device, dtype=matrix.dtype) * 1.7 + 0.3)
    basis = (q / q.norm()).unsqueeze(0)
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(min(n, _ITERATIONS)):
        w = matrix @ basis[-1]
        diagonal.append(torch.dot(w, basis[-1]).item())
        for _ in range(2):  # twice is enough (Parlett 1980)
            w = w - basis.T @ (basis @ w)
        beta = w.norm().item()
        if step % 4 == 3 or beta == 0:
            value, last = _top(diagonal, beside)
            if beta * abs(last) <= _TOLERANCE * abs(value):
                return matrix.new_tensor(value)
        beside.append(beta)
        basis = torch.cat([basis, (w / beta).unsqueeze(0)])
    return torch.linalg.eigvalsh(matrix)[-1].clamp(min=0)


def _top(diagonal: list[float], beside: list[float]) -> tuple[float, float]:
    """The top eigenvalue of the tridiagonal matrix, and the last entry of its vector."""
    small = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    off = torch.tensor(beside, dtype=torch.float64)
    small += torch.diag(off, 1) + torch.diag(off, -1)
    values, vectors = torch.linalg.eigh(small)
    return values[-1].item(), vectors[-1, -1].item()
