"""The shapes of what flows through a plain model: as hooks and an interpreter see them."""

from collections import Counter

import torch
from torch import fx
from torch.utils import _pytree as pytree

from taiyi_fx.passes.flow.shapes import Shapes


def hooked(model, *args, **kwargs):
    """By the name and the call of a module, the shapes that hooks see in a forward."""
    seen, calls, handles = {}, Counter(), []
    for name, module in model.named_modules():

        def hook(module, args, kwargs, value, name=name):
            seen[name, calls[name]] = Shapes(tensors((args, kwargs)), tensors(value))
            calls[name] += 1

        handles.append(module.register_forward_hook(hook, with_kwargs=True))
    model(*args, **kwargs)
    for handle in handles:
        handle.remove()
    return seen


def tensors(value):
    return tuple(tuple(t.shape) for t in pytree.tree_leaves(value) if torch.is_tensor(t))


class Interpreted(fx.Interpreter):
    """Runs a graph node by node."""

    def __init__(self, module, graph):
        super().__init__(module, graph=graph)
        self.made = {}

    def run_node(self, n):
        value = super().run_node(n)
        if shapes := tensors(value):
            self.made[n.name] = shapes
        return value
