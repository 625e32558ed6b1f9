"""Running the program of a failed check."""

import importlib
import sys
import types
import warnings

import pytest
import torch

import taiyi_fx


@pytest.fixture
def run_program(monkeypatch):
    """Runs a program as a script of its own would run, with its quantities not yet declared."""
    module = importlib.import_module("taiyi_fx.quantities.declare")

    def run(program):
        ours = {
            name: found
            for name, found in module._REGISTRY.items()
            if found.compute.__module__.startswith("taiyi_fx.")
        }
        torch.manual_seed(0)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(module, "_REGISTRY", ours)
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            made = types.ModuleType("shown_program")  # torch.compile looks names up in it
            patch.setitem(sys.modules, made.__name__, made)
            exec(compile(program, "<program>", "exec"), vars(made))

    return run
