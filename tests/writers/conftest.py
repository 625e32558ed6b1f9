"""Dashboards without a network."""

import importlib
import importlib.util

import pytest


@pytest.fixture
def wandb_offline(monkeypatch):
    """W&B writes to disk alone, if it is installed."""
    if importlib.util.find_spec("wandb") is not None:
        # It reads its environment once in a process, which an earlier test may have had it do.
        importlib.import_module("wandb").teardown()
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
