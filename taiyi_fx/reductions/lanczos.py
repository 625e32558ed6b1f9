"""The largest eigenvalue of a large matrix without the others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_TOLERANCE = 1e-5
_ITERATIONS = 96
_MORE_ITERATIONS = 320
"""Where the matrix is not there, the alternative takes longer."""


def largest_eigenvalue(matrix: Tensor) -> Tensor:
    """The largest eigenvalue of a symmetric positive semidefinite matrix, in float64.

    By Lanczos' iteration with full reorthogonalisation, until the residual bounds the relative
    error by 1e-5; then the error is mostly its square. A matrix that needs more than 96
    iterations is decomposed. Looks at the host, so it belongs off the step's path.
    """
    matrix = matrix.double()
    found = _largest(lambda q: matrix @ q, matrix[0], _ITERATIONS)
    return torch.linalg.eigvalsh(matrix)[-1].clamp(min=0) if found is None else found


def largest_of_gram(matrix: Tensor) -> Tensor:
    """The largest eigenvalue of ``matrix.T @ matrix``, in float64, without forming that.

    By the same iteration, of at most 320 steps; else by the singular values.
    """
    m = matrix.double()
    m = m if m.shape[1] <= m.shape[0] else m.T
    found = _largest(lambda q: m.T @ (m @ q), m[0], _MORE_ITERATIONS)
    return torch.linalg.svdvals(m)[0].square() if found is None else found


def _largest(multiply: Callable[[Tensor], Tensor], like: Tensor, iterations: int) -> Tensor | None:
    """The largest eigenvalue of a symmetric matrix by its products; None if it takes too long."""
    n = len(like)
    # Fixed, so that a value depends on nothing else, and the user's random numbers stay theirs.
    q = torch.cos(torch.arange(n, device=like.device, dtype=like.dtype) * 1.7 + 0.3)
    basis = (q / q.norm()).unsqueeze(0)
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(min(n, iterations)):
        w = multiply(basis[-1])
        diagonal.append(torch.dot(w, basis[-1]).item())
        for _ in range(2):  # twice is enough (Parlett 1980)
            w = w - basis.T @ (basis @ w)
        beta = w.norm().item()
        if step % 4 == 3 or beta == 0:
            value, last = _top(diagonal, beside)
            if beta * abs(last) <= _TOLERANCE * abs(value):
                return like.new_tensor(value)
        beside.append(beta)
        basis = torch.cat([basis, (w / beta).unsqueeze(0)])
    return None


def _top(diagonal: list[float], beside: list[float]) -> tuple[float, float]:
    """The top eigenvalue of the tridiagonal matrix, and the last entry of its vector."""
    small = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    off = torch.tensor(beside, dtype=torch.float64)
    small += torch.diag(off, 1) + torch.diag(off, -1)
    values, vectors = torch.linalg.eigh(small)
    return values[-1].item(), vectors[-1, -1].item()
