"""A model that is one graph is a GraphModule to torch.fx's own clients, and can be edited as one."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.passes.graph_drawer import FxGraphDrawer
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

import taiyi_fx

CFG = {nn.Linear: ["InputAbsMax", "OutputGradAbsMax"]}
NOW_AND_THEN = {nn.Linear: [["InputAbsMax", "linear(2, 0)"]]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(F.relu(self.fc(x)) + 1)


class Branching(Net):
    def forward(self, x):
        return super().forward(x if x.sum() < 1e9 else -x)


def built(kind=Net, cfg=CFG):
    torch.manual_seed(0)
    model = kind()
    return model, taiyi_fx.instrument(model, cfg)


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def test_it_runs_in_an_interpreter_a_transformer_and_shape_propagation_unread():
    model, probed = built()
    expected = model(X)
    assert torch.equal(fx.Interpreter(probed).run(X), expected)
    assert torch.equal(fx.Transformer(probed).transform()(X), expected)
    assert torch.equal(ShapeProp(probed).propagate(X), expected)
    with pytest.warns(taiyi_fx.MonitorWarning, match="was not called"):
        probed.monitor.track(0)


def test_it_is_drawn_split_traced_again_and_made_a_graph_module_of():
    model, probed = built()
    expected = model(X)
    assert "fc" in str(FxGraphDrawer(probed, "net").get_dot_graph())
    order = [node.name for node in probed.graph.nodes]
    halves = split_module(probed, model, lambda node: int(order.index(node.name) > 5))
    assert torch.equal(halves(X), expected)
    assert torch.equal(fx.symbolic_trace(probed)(X), expected)
    assert torch.equal(fx.GraphModule(probed, probed.graph)(X), expected)
    probed.graph.lint()


def test_it_is_written_into_a_folder_and_read_from_there(tmp_path, monkeypatch):
    model, probed = built()
    probed.to_folder(tmp_path / "written_net", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    from written_net import Written

    assert torch.equal(Written()(X), model(X))


@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch.export takes no graph module there")
def test_it_is_exported():
    model, probed = built()
    assert torch.equal(torch.export.export(probed, (X,)).module()(X), model(X))


def gelu_for_relu(probed):
    for node in probed.graph.find_nodes(op="call_function", target=F.relu):
        node.target, node.kwargs = F.gelu, {}


class Gelu(Net):
    def forward(self, x):
        return self.head(F.gelu(self.fc(x)) + 1)


@pytest.mark.parametrize("cfg", [{}, CFG, NOW_AND_THEN], ids=["nothing", "always", "now and then"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_edit_takes_effect_at_each_step_with_probes_kept(cfg, is_compiled):
    torch.manual_seed(0)
    twin = Gelu()
    model, probed = built(cfg=cfg)
    plain = model(X).detach()
    run = torch.compile(probed, backend="aot_eager") if is_compiled else probed
    assert torch.allclose(run(X), plain)
    probed.monitor.start_at(0)
    gelu_for_relu(probed)
    assert torch.allclose(run(X), plain), "not before it is recompiled"
    probed.monitor.start_at(0)
    probed.recompile()
    for step in range(4):
        assert torch.allclose(run(X), twin(X))
        run(X).sum().backward()
        probed.monitor.track(step)
    assert torch.allclose(model(X), plain), "a call of the model itself is its own"
    inner = F.gelu(twin.fc(X)).add(1).abs().max().item()
    found = probed.monitor.get_output().get("head", {}).get("InputAbsMax", {})
    assert list(found) == {0: [], 2: [0, 1, 2, 3], 1: [0, 2]}[len(next(iter(cfg.values()), ()))]
    assert all(value == pytest.approx(inner) for value in found.values())


def test_replace_pattern_and_another_graph_take_effect():
    def pattern(x):
        return F.relu(x)

    def replacement(x):
        return F.gelu(x)

    torch.manual_seed(0)
    twin = Gelu()
    _, probed = built()
    fx.replace_pattern(probed, pattern, replacement)
    assert torch.equal(probed(X), twin(X))
    model, probed = built()
    graph = copy.deepcopy(probed.graph)
    for node in graph.find_nodes(op="call_function", target=F.relu):
        node.target, node.kwargs = F.gelu, {}
    probed.graph = graph
    probed.recompile()
    assert torch.equal(probed(X), twin(X))
    assert "graph" not in vars(model)


def test_a_copy_has_the_edit_and_a_pickle_says_why_it_cannot():
    torch.manual_seed(0)
    twin = Gelu()
    _, probed = built()
    gelu_for_relu(probed)
    probed.recompile()
    assert torch.equal(copy.deepcopy(probed)(X), twin(X))
    with pytest.raises(TypeError, match="was edited, and cannot be pickled"):
        pickle.dumps(probed)


def test_what_cannot_be_recompiled_says_why():
    _, probed = built(Branching)
    with pytest.raises(TypeError, match="did not become one graph"):
        probed.recompile()
    _, probed = built()
    for node in list(probed.graph.nodes):
        if "taiyi_fx" in node.meta:
            node.replace_all_uses_with(node.args[0])
            probed.graph.erase_node(node)
    with pytest.raises(ValueError, match="are gone: "):
        probed.recompile()
    assert torch.isfinite(probed(X)).all()
