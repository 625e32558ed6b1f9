"""Calls of a model that nothing of ours watches, told to a witness by torch's own hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.runtime.session import Witness
from taiyi_fx.recorder.replay.function_rerun import Unread


def told_by_hooks(model: nn.Module) -> Unread:
    """Has a witness told of training forwards of a model, as long as the body runs."""

    @contextmanager
    def unread(witness: Witness) -> Iterator[None]:
        tokens: list[Any] = []

        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            is_training = module.training and torch.is_grad_enabled()
            tokens.append(witness.begin(args, kwargs, False) if is_training else None)

        def after(module: nn.Module, args: tuple[Any, ...], value: Any) -> None:
            token = tokens.pop()
            if token is not None:
                witness.end(token, value)

        hooks = (
            model.register_forward_pre_hook(before, with_kwargs=True),
            model.register_forward_hook(after),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    return unread
