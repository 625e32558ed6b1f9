"""Pictures as PNG."""

import io
import struct

import numpy as np
import torch
from PIL import Image

from taiyi_fx.writers.png import png


def test_a_png_is_what_its_standard_says():
    made = png(torch.tensor([[0.0, 1.0]]))
    assert made[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", made[16:24]) == (2, 1)
    assert np.asarray(Image.open(io.BytesIO(made))).tolist() == [[[0] * 3, [255] * 3]]
