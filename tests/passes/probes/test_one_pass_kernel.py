"""The kernels' numbers, as Triton's interpreter finds them; those of GPUs are in `tests/cuda`."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton comes with torch where there are GPUs")

CHECK = """
import torch
from taiyi_fx.passes.ir import Elements
from taiyi_fx.passes.probes.one_pass_kernel import elements, norm

for n in (1, 5, 2048, 2049, 5000):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for odd in ((), (torch.nan,), (torch.inf, -torch.inf), (torch.nan, torch.inf)):
            x = torch.randn(n).to(dtype)
            odd = odd[:n]
            x[: len(odd)] = torch.tensor(odd)
            told, wide = Elements(elements(x)), x.double()
            kept = wide[wide.isfinite()]
            finite, total, kept_norm, most = told.finite
            assert (finite, told.nan, told.bad) == (len(kept), wide.isnan().sum(), len(odd))
            pairs = [
                (told.norm, wide.norm()),
                (told.square_sum, wide.square().sum()),
                (told.abs_max, wide.abs().amax()),
                (kept_norm, kept.norm()),
                (norm(x), wide.norm()),
                (total, kept.sum()),
                (most, kept.abs().amax() if len(kept) else 0 * kept_norm),
            ]
            for found, expected in pairs:
                torch.testing.assert_close(
                    found, expected, rtol=1e-12, atol=1e-10, equal_nan=True
                )
"""


def test_numbers_are_those_of_float64():
    found = subprocess.run(
        [sys.executable, "-c", CHECK],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not found.returncode, found.stderr
