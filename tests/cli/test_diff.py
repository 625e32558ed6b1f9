"""`taiyi-fx diff`: where two trainings part."""

import json
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from tests.distributed import processes

CFG = {
    "Linear": [
        "Fingerprint",
        "OutputGradFingerprint",
        "ParameterFingerprint",
        "OutputNorm",
        "WeightNorm",
    ]
}


class Net(nn.Module):
    def __init__(self, names=("up", "down", "head")):
        super().__init__()
        self.order = names
        for name, (n, m) in zip(names, ((8, 16), (16, 8), (8, 2)), strict=True):
            self.add_module(name, nn.Linear(n, m))

    def forward(self, x):
        for name in self.order[:-1]:
            x = torch.tanh(getattr(self, name)(x))
        return getattr(self, self.order[-1])(x)


def recorded(run, steps, cfg=CFG):
    torch.manual_seed(0)
    probed = taiyi_fx.instrument(Net(), cfg, run=run)
    for step in steps:
        probed(torch.ones(5, 8)).square().sum().backward()
        probed.monitor.track(step)
        probed.zero_grad()
    probed.monitor.close()
    return run


def train(run, model=None, *, before=lambda step, model: None, compiler=None):
    model = model or Net()
    torch.manual_seed(0)
    for p in model.parameters():
        nn.init.normal_(p, std=0.1)
    probed = taiyi_fx.instrument(model, CFG, run=run, strict=True)
    call = torch.compile(probed, backend=compiler) if compiler else probed
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        before(step, model)
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        call(x).square().sum().backward()
        probed.monitor.track(step)
        optimizer.step()
    probed.monitor.close()
    return run


def test_trainings_that_are_equal_have_no_difference(cli, tmp_path):
    one, other = (train(tmp_path / name) for name in ("one", "other"))
    code, out, _ = cli("diff", one, other)
    assert code == 0
    assert out.splitlines() == [
        "all bits are the same: 12 fingerprints",
        "numbers agree up to rounding: 6 series",
    ]


def each_rank(rank, ranks):
    """A run of each rank's own; the second one has another bit from step 4 on."""
    held = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(held)
    torch.manual_seed(0)
    model = Net()
    run = Path(held[0]) / f"rank{rank}"
    probed = taiyi_fx.instrument(model, CFG, run=run, process_group=None, strict=True)
    parallel = DistributedDataParallel(probed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        if (rank, step) == (1, 4):
            model.down.weight.data.view(torch.int32)[0, 1] ^= 1 << 3
        optimizer.zero_grad()
        parallel(torch.ones(5, 8)).square().sum().backward()
        probed.monitor.track(step)
        optimizer.step()
    probed.monitor.close()
    dist.barrier()
    return run


@pytest.mark.slow  # ranks
def test_ranks_are_compared_as_runs_are(cli):
    one, other = processes.run({"each": each_rank}, 2)("each")
    code, out, _ = cli("diff", one, other)
    assert code == 1
    assert out.startswith("bits part at step 4 in 'down' ParameterFingerprint.weight\n")
    shutil.rmtree(one.parent)


def test_the_first_bit_that_differs_is_found_where_it_was_changed(cli, tmp_path):
    def flip(step, model):
        if step == 3:
            with torch.no_grad():
                model.down.weight.view(torch.int32)[2, 5] ^= 1 << 3

    one, other = train(tmp_path / "one"), train(tmp_path / "other", before=flip)
    code, out, _ = cli("diff", one, other)
    assert code == 1
    assert out.startswith("bits part at step 3 in 'down' ParameterFingerprint.weight\n")
    assert "numbers agree up to rounding: 6 series" in out
    there = out.partition("in this order:\n\n")[2].splitlines()[2:]
    assert [line.split()[0] for line in there[:2]] == ["down", "down"]
    assert cli("diff", one, other, "--ignore-bits")[0] == 0
    found = json.loads(cli("diff", one, other, "--json")[1])
    assert found["bits"][0] == {
        "step": 3,
        "module": "down",
        "quantity": "ParameterFingerprint.weight",
        "mode": "train",
    }


def test_values_come_before_the_gradients_that_return_from_the_end(cli, tmp_path):
    def nudge(step, model):
        if step == 2:
            model.up.register_forward_hook(lambda module, args, y: y * (1 + 1e-6))

    one, other = train(tmp_path / "one"), train(tmp_path / "other", before=nudge)
    found = json.loads(cli("diff", one, other, "--json")[1])["bits"]
    at_first = [(b["module"], b["quantity"]) for b in found if b["step"] == 2]
    values = [m for m, q in at_first if q == "Fingerprint"]
    gradients = [m for m, q in at_first if q == "OutputGradFingerprint"]
    assert values == ["down", "head"]  # that of `up` itself is read before the hook
    assert gradients == ["head", "down", "up"]
    assert at_first[: len(values)] == [(m, "Fingerprint") for m in values]


def test_numbers_part_where_they_are_apart_by_more_than_rounding(cli, tmp_path):
    def grow(step, model):
        if step == 4:
            with torch.no_grad():
                model.head.weight *= 1.01

    one, other = train(tmp_path / "one"), train(tmp_path / "other", before=grow)
    code, out, _ = cli("diff", one, other, "--ignore-bits")
    assert code == 1
    assert "numbers part by more than rounding at step 4 in 'head' WeightNorm" in out
    assert cli("diff", one, other, "--ignore-bits", "--rtol", "0.1")[0] == 0


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_compiled_code_may_differ_in_bits_and_agrees_in_numbers(cli, tmp_path, compiler):
    one, other = train(tmp_path / "one"), train(tmp_path / "other", compiler=compiler)
    code, out, _ = cli("diff", one, other, "--ignore-bits")
    assert code == 0
    assert "numbers agree up to rounding: 6 series" in out


def test_models_of_other_names_are_aligned_and_what_one_lacks_is_named(cli, tmp_path):
    one = train(tmp_path / "one")
    other = train(tmp_path / "other", Net(("fc1", "fc2", "proj")))
    code, out, _ = cli("diff", one, other)
    assert code == 0
    assert out.splitlines()[-1] == "3 modules aligned by structure"
    fewer = tmp_path / "fewer"
    probed = taiyi_fx.instrument(Net(), {"up": ["OutputNorm"], "down": ["OutputNorm"]}, run=fewer)
    probed(torch.ones(2, 8)).sum().backward()
    probed.monitor.track(0)
    probed.monitor.close()
    code, out, _ = cli("diff", one, fewer, "--quantity", "OutputNorm", "--rtol", "1e9")
    assert code == 1
    assert "1 module in one run only" in out
    assert f"head    {one}" in out
    assert "no fingerprints to compare: record Fingerprint to see where bits part" in out


@pytest.mark.slow
def test_a_model_of_transformers_and_its_rewrite_are_aligned(cli, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 16, "n_positions": 8}
    config = transformers.GPT2Config(
        **sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0
    )
    try:
        model = transformers.GPT2LMHeadModel(config)
    except ImportError as error:
        pytest.skip(str(error))
    rewrite = Gpt(8, 2, 16, 8)
    rewrite.take(model.transformer)
    for run, one in ((tmp_path / "model", model), (tmp_path / "rewrite", rewrite)):
        probed = taiyi_fx.instrument(one, {nn.Module: ["OutputRMS"]}, run=run)
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            torch.manual_seed(0)
            found = probed(torch.randint(16, (3, 8)))
            getattr(found, "logits", found).sum().backward()
            probed.monitor.track(0)
            probed.monitor.close()
    code, out, _ = cli("diff", tmp_path / "model", tmp_path / "rewrite", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["beyond"] == []
    only = {one["module"] for one in found["only"]}
    assert {one["run"] for one in found["only"]} == {"one"}
    assert {name.rpartition(".")[2] for name in only} == {
        "transformer", "drop", "resid_dropout", "dropout"
    }  # fmt: skip
    assert found["aligned"] == 4 + 2 * 10


class Gpt(nn.Module):
    """GPT-2, written anew."""

    def __init__(self, width, depth, words, length):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(GptLayer(width) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1])[None])
        for layer in self.layers:
            h = layer(h)
        return self.out(self.norm(h))

    @torch.no_grad()
    def take(self, gpt):
        """Takes the weights of transformers' own."""
        pairs = [(self.words, gpt.wte), (self.places, gpt.wpe), (self.norm, gpt.ln_f)]
        for layer, like in zip(self.layers, gpt.h, strict=True):
            pairs += [(layer.norm_a, like.ln_1), (layer.norm_b, like.ln_2)]
            pairs += [(layer.mix.qkv, like.attn.c_attn), (layer.mix.end, like.attn.c_proj)]
            pairs += [(layer.feed.up, like.mlp.c_fc), (layer.feed.down, like.mlp.c_proj)]
        for own, other in pairs:
            is_turned = isinstance(own, nn.Linear)
            own.weight.copy_(other.weight.t() if is_turned else other.weight)
            if getattr(own, "bias", None) is not None:
                own.bias.copy_(other.bias)


class GptLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_a, self.mix = nn.LayerNorm(width), GptMix(width)
        self.norm_b, self.feed = nn.LayerNorm(width), GptFeed(width)

    def forward(self, x):
        x = x + self.mix(self.norm_a(x))
        return x + self.feed(self.norm_b(x))


class GptMix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.end = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        parts = (x.unflatten(-1, (2, -1)).transpose(1, 2) for x in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.end(mixed.transpose(1, 2).flatten(2))


class GptFeed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.act, self.down = (
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )  # fmt: skip

    def forward(self, x):
        return self.down(self.act(self.up(x)))


@pytest.mark.parametrize("given", ["-1", "nan", "x"])
def test_a_tolerance_is_a_number(cli, given, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli("diff", tmp_path, tmp_path, "--rtol", given)
    assert "is not a number of at least 0" in capsys.readouterr().err


def test_runs_without_a_step_in_common_are_not_called_equal(cli, tmp_path):
    one, other = recorded(tmp_path / "one", range(3)), recorded(tmp_path / "other", range(7, 9))
    code, out, err = cli("diff", one, other)
    assert (code, out) == (2, "")
    assert "no step that both runs recorded" in err
    assert "one has steps 0 to 2, " in err
    assert "other has steps 7 to 8" in err


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_runs_without_numbers_are_not_called_equal(cli, tmp_path):
    one, other = recorded(tmp_path / "one", ()), recorded(tmp_path / "other", ())
    code, _, err = cli("diff", one, other)
    assert code == 2
    assert "one has no numbers" in err


def test_modules_that_were_recorded_at_other_steps_are_counted(cli, tmp_path):
    own = [["WeightNorm", "every(2)"]]
    odd = [["WeightNorm", "linear(2, 1)"]]
    one = recorded(tmp_path / "one", range(4), {"up": own, "down": own})
    other = recorded(tmp_path / "other", range(4), {"up": own, "down": odd})
    code, out, _ = cli("diff", one, other)
    assert code == 0
    assert "1 module not compared: recorded at no step in both runs" in out
