"""Fingerprints in whole numbers of Python, of any size, one element at a time."""

import numpy as np

ALL = 2**64
BASE, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def whole(x):
    """The fingerprint of a tensor."""
    return (
        sum(mixed(bits, x.element_size()) * pow(BASE, i + 1, ALL) for i, bits in numbers(x)) % ALL
    )


def numbers(x):
    kind = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.element_size()]
    raw = bytes(x.contiguous().untyped_storage())[: x.numel() * x.element_size()]
    return enumerate(int(n) for n in np.frombuffer(raw, kind))


def mixed(bits, size):
    found = bits % ALL
    found = found ^ (found >> 32) if size == 8 else found
    found = (found + FIRST) * FIRST % ALL
    return (found ^ (found >> 32)) * SECOND % ALL


def fingerprint(name):
    """Of what flowed at a step, in the type that it had."""

    def halves(s):
        x = getattr(s, name)
        factor = s.grad_scale if name.startswith("g_") else 1.0
        return None if x is None else _halves(x * factor, s.dtypes[name])

    return halves


def fingerprints(found):
    """Of each parameter, or of its gradient."""

    def of_each(s):
        factor = s.grad_scale if found == "gradients" else 1.0
        named = {k: _halves(x * factor, s.dtypes[k]) for k, x in getattr(s, found).items()}
        return {f"{k}.{half}": n for k, halves in named.items() for half, n in halves.items()}

    return of_each


def _halves(x, dtype):
    found = whole(x.to(dtype))
    return {"high": found >> 32, "low": found % 2**32}
