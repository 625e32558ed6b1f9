"""The page of a diagram: the records that are on it."""

import torch

from taiyi_fx.outline import Outline
from taiyi_fx.pictures.diagram.interactive import page
from taiyi_fx.pictures.report.header import Graph
from tests.pictures.diagram.given import net, trained
from tests.pictures.report.decoded import decoded


def page_of(model, **options):
    return decoded(page(Graph(model.monitor.outline, {0}), model.monitor, **options))


def test_a_page_has_the_outline_and_the_records_in_memory():
    model = trained(net(2), torch.ones(3, 4), steps=2)
    found = page_of(model, values=True)
    assert Outline.from_json(found.header["outline"]) == model.monitor.outline
    assert found.header["open"] == [0]
    expected = {(r.module, r.quantity, r.mode) for r in model.monitor.records}
    assert set(found.series()) == expected
    assert not found.header["graph_alone"]


def test_a_page_without_values_is_the_graph_alone():
    found = page_of(trained(net(2), torch.ones(3, 4)), values=False)
    assert found.header["graph_alone"]
    assert found.chunks == {}
