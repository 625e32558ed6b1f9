"""Layers that models bring along, known by the code of their forwards.

Transformers alone has hundreds of classes with an RMS norm, and GPT-2's linear layers are of a
class of its own. A name would be a guess: whoever calls a class RMSNorm may have put a gate or an
offset into it. Equal code computes the same, so that the gradient of the weight follows, sample by
sample.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.passes.structure import attribute_of, tensor_named
from taiyi_fx.reductions.weight_gradients import Dense, Normalization, WeightGradient


def known_layer(module: nn.Module) -> WeightGradient | None:
    """The rule of a layer whose code is known.

    That is a norm whose weight multiplies what `torch.nn.functional.rms_norm` returns, or a linear
    layer with its weight transposed.
    """
    if is_known_linear(module):
        return Dense(transposed=True)
    kind = type(module)
    for form in _FORMS:
        if all(_is_same(getattr(kind, name, None), of) for name, of in form.items()):
            eps = next(float(e) for n in _EPS if (e := attribute_of(module, n)) is not None)
            weight = tensor_named(module, "weight")
            return Normalization("rms", eps, tuple(weight.shape))
    return None


def is_known_linear(module: nn.Module) -> bool:
    """True for a linear layer that is none of torch's, as those of GPT-2 are."""
    return _is_same(getattr(type(module), "forward", None), _of_gpt2)


_EPS = ("variance_epsilon", "eps")


def _is_same(function: Any, form: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and _content(code) == _content(form.__code__)


@functools.cache
def _content(code: CodeType) -> tuple[Any, ...]:
    """The instructions of a function, without its documentation and annotations."""
    return tuple((i.opname, i.argval) for i in dis.get_instructions(code))


# Never called: only what they compile to is looked at. Names are those of the models.


def _of_gpt2(self: Any, x: Tensor) -> Tensor:
    size_out = x.size()[:-1] + (self.nf,)  # noqa: RUF005 - as it is there
    x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
    x = x.view(size_out)
    return x  # noqa: RET504


def _llama(self: Any, hidden_states: Tensor) -> Tensor:
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)


def _olmo(self: Any, hidden_states: Tensor) -> Tensor:
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return (self.weight * hidden_states).to(input_dtype)


def _t5(self: Any, hidden_states: Tensor) -> Tensor:
    variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    if self.weight.dtype in [torch.float16, torch.bfloat16]:
        hidden_states = hidden_states.to(self.weight.dtype)
    return self.weight * hidden_states


def _norm(self: Any, x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def _of_meta(self: Any, x: Tensor) -> Tensor:
    output = self._norm(x.float()).type_as(x)
    return output * self.weight


def _gemma(self: Any, x: Tensor) -> Tensor:
    output = self._norm(x.float())
    output = output * (1.0 + self.weight.float())
    return output.type_as(x)


_FORMS: tuple[dict[str, Callable[..., Any]], ...] = (
    {"forward": _llama},
    {"forward": _olmo},
    {"forward": _t5},
    {"forward": _of_meta, "_norm": _norm},
    {"forward": _gemma, "_norm": _norm},
)
