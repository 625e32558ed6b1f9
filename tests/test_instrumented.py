"""The instrumented object: a GraphModule to torch.fx's own clients, which can be edited as one."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.experimental.normalize import NormalizeArgs
from torch.fx.experimental.optimization import fuse, remove_dropout
from torch.fx.passes import tools_common
from torch.fx.passes.dialect.common.cse_pass import CSEPass
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.graph_drawer import FxGraphDrawer
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

import taiyi_fx
from tests.hard_models import quietly

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


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout())
        self.conv, self.norm, self.fc = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(self.body(x))))
        return self.fc(F.dropout(x.mean((2, 3)), training=self.training))


IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
OF_CONVOLUTIONS = [{}, {nn.Conv2d: ["InputAbsMax"]}, {nn.BatchNorm2d: ["OutputGradAbsMax"]}]


def convolutions(cfg):
    """A model in evaluation whose norms have seen something, and the same instrumented."""
    torch.manual_seed(0)
    model = Conv()
    probed = taiyi_fx.instrument(model, cfg)
    probed(IMAGES)
    return model.eval(), probed


@pytest.mark.parametrize("cfg", OF_CONVOLUTIONS)
def test_norms_are_fused_into_convolutions_as_in_a_plain_graph_module(cfg):
    model, probed = convolutions(cfg)
    fused = fuse(probed)
    assert torch.equal(fused(IMAGES), fuse(fx.symbolic_trace(model))(IMAGES))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fused.modules())
    assert torch.equal(remove_dropout(probed)(IMAGES), model(IMAGES))
    assert torch.equal(probed(IMAGES), model(IMAGES))


@pytest.mark.filterwarnings("ignore:.*")  # of torch, on quantization in general
def test_it_is_quantized_as_the_model():
    quantize_fx = pytest.importorskip("torch.ao.quantization.quantize_fx")
    from torch.ao.quantization import get_default_qconfig_mapping

    found = []
    for model in convolutions({nn.Conv2d: ["InputAbsMax"]}):
        prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping(), (IMAGES,))
        expected = prepared(IMAGES)
        found += [expected, quantize_fx.convert_fx(prepared)(IMAGES)]
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])


def test_passes_of_torchs_own_take_it():
    model, probed = convolutions({nn.Conv2d: ["InputAbsMax"]})
    ShapeProp(probed).propagate(IMAGES)
    assert {
        n.meta["tensor_meta"].shape[0] for n in probed.graph.nodes if n.op == "call_module"
    } == {2}
    callable_nodes = {n for n in probed.graph.nodes if n.op in tools_common.CALLABLE_NODE_OPS}
    assert set(tools_common.FxNetAccFusionsFinder(probed, callable_nodes)()) <= callable_nodes
    (convolution, *_) = probed.graph.find_nodes(op="call_module")
    kind = tools_common.get_node_target(dict(probed.named_modules()), convolution)
    assert kind == "torch.nn.modules.conv.Conv2d"
    assert tools_common.legalize_graph(probed) is probed
    assert torch.equal(CSEPass()(probed).graph_module(IMAGES), model(IMAGES))
    assert torch.equal(split_const_subgraphs(probed)(IMAGES), model(IMAGES))
    assert torch.equal(NormalizeArgs(probed).transform()(IMAGES), model(IMAGES))
    fake = FakeTensorProp(probed, FakeTensorMode(allow_non_fake_inputs=True)).propagate(IMAGES)
    assert fake.shape == (2, 2)
    assert torch.equal(probed(IMAGES), model(IMAGES))


@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch.export takes no graph module there")
class Scripted(Net):
    def forward(self, x, times: int = 2):
        return self.scaled(self.head(self.fc(x))) * times * self.width

    def scaled(self, x):
        return F.relu(x)

    @property
    def width(self) -> int:
        return 3

    @property
    def words(self) -> str:
        return f"{self.__dict__}"

    @torch.jit.export
    def other(self, x):
        return self.fc(x)

    __jit_unused_properties__ = ("words",)


class Around(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


def test_torchscript_compiles_and_traces_it_as_the_model():
    model, probed = built(Scripted)
    one, other = (quietly(torch.jit.script, m) for m in (model, probed))
    assert (other.code, other.other.code) == (one.code, one.other.code)
    around = Around(probed)
    assert torch.equal(quietly(torch.jit.script, around)(X), model(X))
    assert around.part is probed
    one, other = (quietly(torch.jit.trace, m, (X,)) for m in (model, probed))
    assert other.code == one.code
    assert [n.scopeName() for n in other.inlined_graph.nodes()] == [
        n.scopeName() for n in one.inlined_graph.nodes()
    ]
    probed(X).sum().backward()
    probed.monitor.track(0)
    assert len(probed.monitor.records) == 4


@pytest.mark.skipif(torch.__version__ < "2.7", reason="2.6 fails: docs/explanation/limits.md")
def test_it_is_exported():
    model, probed = built()
    assert torch.equal(torch.export.export(probed, (X,)).module()(X), model(X))


class Counting(Net):
    """Its forward stays Python."""

    def forward(self, x):
        if x.dim() == 5:
            x = x[0]
        return super().forward(x)


@pytest.mark.skipif(torch.__version__ < "2.7", reason="2.6 fails: docs/explanation/limits.md")
def test_a_model_that_stayed_python_is_exported_too():
    torch.manual_seed(0)
    model = Counting()
    probed = taiyi_fx.instrument(model, CFG)
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


class Dropping(Net):
    """Asks whether it trains."""

    def forward(self, x):
        return F.dropout(super().forward(x), training=self.training)


EVAL = pytest.mark.parametrize("cfg", [{}, CFG], ids=["nothing", "always"])
RECORDED = pytest.mark.parametrize("record_eval", [False, True])


@RECORDED
def test_the_graph_is_that_of_the_mode_that_the_model_is_in(record_eval):
    torch.manual_seed(0)
    model = Dropping()
    probed = taiyi_fx.instrument(model, CFG, record_eval=record_eval)
    trained = probed.graph
    expected = model.eval()(X)
    assert torch.equal(fx.Interpreter(probed).run(X), expected)
    assert torch.equal(fx.Transformer(probed).transform()(X), expected)
    assert torch.equal(fx.GraphModule(probed, probed.graph)(X), expected)
    assert torch.equal(fx.symbolic_trace(probed)(X), expected)
    assert probed.train().graph is trained
    torch.manual_seed(1)
    expected = model(X)
    torch.manual_seed(1)
    assert torch.equal(fx.Interpreter(probed).run(X), expected)


class DroppingGelu(Gelu):
    def forward(self, x):
        return F.dropout(super().forward(x), training=self.training)


@EVAL
@RECORDED
@pytest.mark.parametrize("order", [(True, False), (False, True)])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_each_mode_has_an_edit_of_its_own_and_without_it_says_what_to_do(
    cfg, record_eval, order, is_compiled
):
    torch.manual_seed(0)
    twin = DroppingGelu()
    torch.manual_seed(0)
    probed = taiyi_fx.instrument(Dropping(), cfg, record_eval=record_eval)

    def run(model):
        return (torch.compile(model, backend="eager") if is_compiled else model)(X)

    for training in order:
        gelu_for_relu(probed.train(training))
        probed.recompile()
        torch.manual_seed(2)
        found = run(probed)
        torch.manual_seed(2)
        assert torch.allclose(found, twin.train(training)(X))
        if training is order[0]:
            for each in (probed, copy.deepcopy(probed)):
                each.train(not training)
                with pytest.raises(
                    RuntimeError, match="edited and recompiled for another mode than"
                ):
                    each(X)
    for each in (probed, copy.deepcopy(probed)):
        assert torch.allclose(each.eval()(X), twin.eval()(X))
        torch.manual_seed(2)
        found = each.train()(X)
        torch.manual_seed(2)
        assert torch.allclose(found, twin.train()(X))


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


def test_what_belongs_to_an_instrumented_model_is_found_within_wrappers():
    model = taiyi_fx.instrument(Net(), CFG)
    for found_in in (model, nn.Sequential(nn.Identity(), model)):
        assert taiyi_fx.monitor_of(found_in) is model.monitor
        assert taiyi_fx.graph_of(found_in) is model.graph
        assert taiyi_fx.capture_of(found_in) is model.capture


@pytest.mark.parametrize("of", [taiyi_fx.monitor_of, taiyi_fx.graph_of, taiyi_fx.capture_of])
def test_a_model_without_an_instrumented_part_says_what_to_do(of):
    with pytest.raises(LookupError, match=r"no part of the Net is instrumented: .*instrument\(mod"):
        of(Net())


def test_several_instrumented_parts_are_named():
    parts = nn.Sequential(taiyi_fx.instrument(Net(), CFG), taiyi_fx.instrument(Net(), CFG))
    with pytest.raises(
        ValueError, match="several parts are instrumented, '0', '1': instrument the"
    ):
        taiyi_fx.monitor_of(parts)


def test_a_copy_goes_on_at_the_step_and_with_the_options_of_the_original():
    model = taiyi_fx.instrument(Net(), CFG, start_step=4, record_eval=True, strict=True)
    model.monitor.start_at(7)
    made = copy.deepcopy(model)
    assert made.monitor.next_step == 7
    options = made._instrumentation.options
    assert (options.record_eval, options.strict, options.capture) == (True, True, "auto")


class Final(nn.Module):
    """Allows no subclasses, as some compiled classes do."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def __init_subclass__(cls):
        raise TypeError("is final")

    def forward(self, x):
        return self.fc(x)

    def twice(self):
        return 2


def test_a_model_whose_class_allows_no_subclass_answers_its_attributes_all_the_same():
    model = taiyi_fx.instrument(Final(), {"fc": ["InputAbsMax"]})
    x = torch.randn(2, 3)
    model(x)
    model.monitor.track(0)
    assert model.twice() == 2
    assert model.monitor.records[0].value == x.abs().max().item()
