"""Text files as tests write and read them."""

import csv
import json
from contextlib import contextmanager

import numpy as np
import torch

from taiyi_fx.writers import CSV, JSONL
from tests.writers.given import run

LINES = {"csv": CSV, "jsonl": JSONL}


def writer_of(path, **options):
    return LINES[path.suffix[1:]](path, **options)


@contextmanager
def written(path, *batches, start_step=0, **options):
    writer = writer_of(path, **options)
    writer.open(run(start_step))
    for batch in batches:
        writer.write(batch)
    writer.flush()
    yield path.read_bytes()
    writer.close()


def read_csv(path):
    with open(path, encoding="utf-8", errors="surrogatepass", newline="") as file:
        return list(csv.DictReader(file))


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def as_tensor(value, dtype, shape):
    dtype = getattr(torch, dtype)
    if dtype.is_complex:
        real = torch.from_numpy(np.array(value, dtype="float64")).reshape(*shape, 2)
        return torch.view_as_complex(real).to(dtype)
    plain = np.array(value, dtype="int64" if dtype in (torch.int64,) else "float64")
    return torch.from_numpy(plain).reshape(shape).to(dtype)


def same_tensor(found, value):
    if value.dtype.is_complex:
        found, value = torch.view_as_real(found), torch.view_as_real(value)
    both = found.to(torch.float64), value.to(torch.float64)
    return found.dtype == value.dtype and torch.allclose(*both, rtol=0, atol=0, equal_nan=True)


def of_tensor(value):
    return str(value.dtype).removeprefix("torch."), tuple(value.shape)
