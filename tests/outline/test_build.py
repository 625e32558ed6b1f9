"""Outlines as a whole: what holds for every model, and that a run keeps them."""

import json

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Outline
from taiyi_fx.testing import models
from tests.outline.outlined import Block, Stack, leaves, outlined, quotient


@pytest.mark.slow
@given(models(), st.data())
def test_every_outline_is_whole_and_no_choice_of_open_items_makes_a_cycle(model, data):
    outline = outlined(model.make(), None, torch.randn(3, *model.shape))
    items, children = outline.items, outline.children()
    assert all(item.parent < i for i, item in enumerate(items))
    ends = {i for edge in outline.edges for i in edge[:2]}
    assert ends <= set(leaves(outline))
    parents = [i for i, inner in enumerate(children) if inner]
    is_open = {0, *data.draw(st.sets(st.sampled_from(parents)))}
    assert nx.is_directed_acyclic_graph(quotient(outline, is_open))
    assert Outline.from_json(json.loads(json.dumps(outline.to_json()))) == outline


@pytest.mark.parametrize("kind", ["Store", "Parquet"])
def test_a_run_keeps_the_outline(kind, tmp_path):
    writer = getattr(__import__("taiyi_fx.writers", fromlist=[kind]), kind)(tmp_path)
    model = taiyi_fx.instrument(
        Stack(Block(), Block()), {nn.Linear: ["OutputRMS"]}, writers=[writer]
    )
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.outline is None
    model(torch.randn(2, 4)).sum().backward()
    model.monitor.track(0)
    model.monitor.flush()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.outline == model.monitor.outline
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.outline == model.monitor.outline
