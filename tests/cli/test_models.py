"""What a command line says of models and configurations."""

import re
import sys

import pytest
import torch

import taiyi_fx
from taiyi_fx.cli.cfg_files import read_cfg

YAML = """\
# A comment.
Block: [OutputNorm]
2: [[WeightNorm, "linear(5, 1)"], WeightGradNorm]
torch.nn.modules.batchnorm._BatchNorm: [MeanTID]
torch.relu: [[OutputMean, "every(2)"]]
"""


def test_quantities_are_listed(cli):
    code, out, _ = cli("quantities")
    assert code == 0
    assert len(out.splitlines()) >= 88
    assert "WeightNorm " in out


def test_a_quantity_is_told_in_full(cli):
    code, out, _ = cli("quantities", "InputCovCondition")
    assert code == 0
    assert "arXiv 2002.10801" in out
    code, out, err = cli("quantities", "InputCovCondtion")
    assert (code, out) == (2, "")
    assert err.endswith("Did you mean 'InputCovCondition'?\n")


@pytest.mark.parametrize(
    ("key", "shown", "last"),
    [
        ("2", ["2"], "'2' matches 1 module"),
        ("Block", ["0", "1"], "'Block' matches 2 modules"),
        ("*.fc", ["0.fc", "1.fc"], "'*.fc' matches 2 modules"),
        ("torch.nn.Linear", ["0.fc", "1.fc", "2"], "'torch.nn.Linear' matches 3 modules"),
        ("torch.relu", ["0.relu()", "1.relu()"], "'torch.relu' matches 2 calls"),
    ],
)
def test_targets_shows_what_a_key_matches(cli, models, key, shown, last):
    code, out, err = cli("targets", f"{models}:net", key)
    _, _, *rows, told = out.splitlines()
    assert (code, err, told) == (0, "", last)
    assert [re.split("  +", row)[0] for row in rows] == shown


def test_targets_shows_classes_and_shapes(cli, models):
    _, out, _ = cli("targets", f"{models}:net", "0.fc", "--call-args", "width=7", "name=any text")
    assert out.splitlines()[2].split() == "0.fc Linear weight (7, 7), bias (7,)".split()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("Blok", "'Blok': no module is named or of class 'Blok'. Did you mean 'Block'?"),
        ("x*", "'x*': no module's name fits the pattern 'x*'"),
        ("torch.nn.Conv2d", "'torch.nn.Conv2d': no module of the model matches"),
        ("torch.nn.Linea", "no module is named or of class 'torch.nn.Linea'."),
        ("operator.add", "'operator.add': the model's graph has no call of operator.add"),
    ],
)
def test_a_key_that_matches_nothing_is_told_with_what_may_be_meant(cli, models, key, told):
    code, out, err = cli("targets", f"{models}:net", key)
    assert (code, out) == (1, "")
    assert told in err


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("net", "MODEL is module:callable, such as models:resnet, not 'net'"),
        ("{}:nett", "{} has no 'nett'. Did you mean 'net'?"),
        ("no_such_module.here:net", "no module 'no_such_module' is in the working directory"),
        ("{}:number", "{}:number is a int, no model and not callable"),
        ("{}:wrong", "{}:wrong returned a str, not a torch.nn.Module"),
        ("{}:broken", "calling {}:broken raised RuntimeError: no weights here"),
        ("failing:net", "importing failing raised ValueError: at import"),
        (
            "needing:net",
            "importing needing raised ModuleNotFoundError: No module named 'not_there'",
        ),
        ("ending:net", "importing ending raised SystemExit: 3"),
        ("{}:leaving", "calling {}:leaving raised SystemExit: 0"),
    ],
)
def test_a_model_that_is_none_is_told(cli, models, write, model, told):
    write("failing.py", "def inner():\n    raise ValueError('at import')\n\ninner()\n")
    write("needing.py", "import not_there\n")
    write("ending.py", "raise SystemExit(3)\n")
    code, out, err = cli("targets", model.format(models), "2")
    assert (code, out) == (2, "")
    assert err.startswith(f"taiyi-fx: error: {told.format(models)}")
    assert "taiyi_fx/cli" not in err
    if "failing" in model:
        assert 'failing.py", line 2, in inner' in err


def test_arguments_of_the_callable_are_checked(cli, models):
    assert cli("targets", f"{models}:net", "2", "--call-args", "7")[2] == (
        "taiyi-fx: error: --call-args takes NAME=VALUE, such as width=64, not '7'\n"
    )
    assert "TypeError" in cli("targets", f"{models}:net", "2", "--call-args", "depth=7")[2]


@pytest.mark.parametrize("text", ["{[]: 1}", "(" * 500, "-" * 100_000 + "1"])
def test_what_is_no_literal_is_a_text(cli, models, text):
    assert cli("targets", f"{models}:net", "2", "--call-args", f"name={text}")[0] == 0


@pytest.mark.parametrize("suffix", ["yaml", "yml", "toml", "py"])
def test_check_tells_what_a_configuration_comes_to(cli, models, write, suffix):
    text = {
        "toml": """
Block = ["OutputNorm"]
2 = [["WeightNorm", "linear(5, 1)"], "WeightGradNorm"]
"torch.nn.modules.batchnorm._BatchNorm" = ["MeanTID"]
"torch.relu" = [["OutputMean", "every(2)"]]
""",
        "py": """
import torch
cfg = {
    "Block": ["OutputNorm"],
    "2": [["WeightNorm", "linear(5, 1)"], "WeightGradNorm"],
    torch.nn.BatchNorm1d: ["MeanTID"],
    torch.relu: [["OutputMean", "every(2)"]],
}
""",
    }.get(suffix, YAML).replace("OutputMean", "OutputRMS")
    code, out, err = cli("check", f"{models}:made", write(f"probes.{suffix}", text))
    assert (code, err) == (0, "")
    head, _, schedules = out.partition("\n\n")
    assert [re.split("  +", line) for line in head.splitlines()] == [
        ["model", f"{models}:made (Sequential), 66 parameters"],
        ["quantities", "8 of 7 modules"],
        ["probes", "8 at calls; 6 of parameters and buffers, at track"],
        ["captured", "as one graph"],
    ]
    assert sorted(re.split("  +", line) for line in schedules.splitlines()[2:]) == [
        ["linear(0, 0)", "5", "0, 1, 2, 3, 4, ..."],
        ["linear(2, 0)", "2", "0, 2, 4, 6, 8, ..."],
        ["linear(5, 1)", "1", "1, 6, 11, 16, 21, ..."],
    ]


def test_check_shows_steps_from_where_it_is_told(cli, models, write):
    cfg = write("c.toml", '2 = [["WeightNorm", "at_steps(3, 40)"], ["InputMean", "every(30)"]]')
    _, out, _ = cli("check", f"{models}:net", cfg, "--step-from", "35")
    assert "at_steps(3, 40)  1           40\n" in out
    assert "linear(30, 0)    1           60, 90, 120, 150, 180, ...\n" in out
    _, out, _ = cli("check", f"{models}:net", cfg, "--step-from", "41")
    assert "at_steps(3, 40)  1           none from 41 on, for 100,000 steps\n" in out


def test_check_needs_no_memory_on_meta(cli, models, write):
    cfg = write("c.yaml", "Linear: [WeightNorm, OutputGradNorm]\nBlock: [InputMean]\n")
    width = ("--device", "meta", "--call-args", "width=100_000")
    code, out, _ = cli("check", f"{models}:net", cfg, *width)
    assert code == 0
    assert "20,000,800,002 parameters" in out


BATCHES = """
import torch

number = 3
tensor = torch.ones(3, 4)

def positional():
    return (torch.ones(3, 4),)

def by_name():
    return {"input": torch.ones(3, 4)}

def wrong_size():
    return torch.ones(3, 5)

def broken():
    raise RuntimeError("no data here")
"""


@pytest.fixture
def batches(models, write):
    """A module of batches, beside that of models."""
    name = models.replace("models", "batches")
    write(f"{name}.py", BATCHES)
    return name


@pytest.mark.parametrize("batch", ["3x4", "{}:tensor", "{}:positional", "{}:by_name"])
def test_check_runs_the_model_and_compares_all_bits(cli, models, batches, write, batch):
    cfg = write("c.yaml", "Linear: [InputSndNorm, WeightNorm]\n")
    code, out, err = cli("check", f"{models}:net", cfg, "--run", batch.format(batches))
    assert (code, err) == (0, "")
    assert "captured    as one graph" in out
    assert "\nverdict  monitoring changed nothing, and saw every call\n" in out
    assert "seen 6 of 6, of 3 modules" in out
    assert "where nothing is\n" in out


def test_check_runs_a_module_itself_and_leaves_it_as_it_was(cli, models, write):
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    model = __import__(models).made
    before = [p.clone() for p in (*model.parameters(), *model.buffers())]
    assert cli("check", f"{models}:made", cfg, "--run", "3x4")[0] == 0
    after = (*model.parameters(), *model.buffers())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_check_fails_where_something_differs(cli, models, write):
    write(
        "draws.py",
        """
import os
from torch import nn

class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x) + int.from_bytes(os.urandom(2), "big")
""",
    )
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    code, out, _ = cli("check", "draws:Noisy", cfg, "--run", "3x4")
    assert code == 1
    assert "the plain model differs from itself in output in the first step" in out


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ("3,4", "BATCH is module:callable, such as models:batch, or a shape, such as 8x3x32x32, "),
        ("{}:nothing", "{} has no 'nothing'"),
        ("{}:broken", "calling {}:broken raised RuntimeError: no data here"),
        ("{}:wrong_size", "raised RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("{}:number", "raised TypeError: linear(): argument 'input'"),
    ],
)
def test_a_batch_that_does_not_fit_is_told(cli, models, batches, write, batch, told):
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    code, _, err = cli("check", f"{models}:net", cfg, "--run", batch.format(batches))
    assert code == 2
    assert told.format(batches) in err


def test_nothing_is_run_on_meta(cli, models, write):
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    code, _, err = cli("check", f"{models}:net", cfg, "--run", "3x4", "--device", "meta")
    assert code == 2
    assert "leave out --device meta" in err


WRONG = {
    "yaml": "# first\nBlok: [OutputNorm]\n\n2:\n  - MeanTID\n  - [WeightNorm, sometimes]\n",
    "toml": '# first\nBlok = ["OutputNorm"]\n\n2 = ["MeanTID", ["WeightNorm", "sometimes"]]\n',
    "py": 'cfg = {\n    "Blok": ["OutputNorm"],\n\n    "2": ["MeanTID", ["WeightNorm", "sometimes"]],\n}\n',
}


@pytest.mark.parametrize("suffix", WRONG)
@pytest.mark.parametrize("command", ["check", "graph"])
def test_all_that_is_wrong_is_told_at_once_with_its_line(cli, models, write, suffix, command):
    file = write(f"wrong.{suffix}", WRONG[suffix])
    output = ["-o", "never.dot"] if command == "graph" else []
    code, out, err = cli(command, f"{models}:net", file, *output)
    assert (code, out) == (1, "")
    with pytest.raises(taiyi_fx.ConfigError) as error:
        taiyi_fx.instrument(sys.modules[models].net(), read_cfg(file).cfg)
    lines = [2, 4, 4]
    problems = sorted(error.value.problems, key=lambda problem: "Blok" not in problem)
    assert sorted(err.splitlines()) == sorted(
        f"{file}:{line}: {problem}" for line, problem in zip(lines, problems, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.json", "{}", "c.json: CFG ends in .py, .yaml, .yml or .toml"),
        ("c.yaml", "a: [b\nc: d", "c.yaml:2: expected ',' or ']', but got ':'"),
        ("c.yaml", "- a\n- b\n", "maps modules to lists of quantities, this is a list"),
        ("c.yaml", "a: \x1b", "special characters are not allowed"),
        ("c.yaml", "", "maps modules to lists of quantities, this is a NoneType"),
        ("c.yaml", "a: [x]\nb: [x]\na: [y]\n", "c.yaml:3: 'a' stands in line 1 already"),
        ("c.yaml", "a: !!python/object/apply:os.system [id]\n", "c.yaml:1: could not determine"),
        (
            "c.yaml",
            "a: [x]\n? [a, b]\n: [x]\n",
            "c.yaml:2: a key is the name of modules, not a seq",
        ),
        ("c.yaml", "a: [2020-13-45]\n", "c.yaml: month must be in 1..12"),
        ("c.yaml", "a: [!!int abc]\n", "c.yaml: invalid literal for int()"),
        ("c.yaml", "a: " + "[" * 3000, "c.yaml: its brackets are nested too deeply"),
        ("c.toml", "a = [\n", "c.toml: "),
        ("c.toml", "a = ['x']\na = ['y']\n", "c.toml: Cannot overwrite a value"),
        ("c.toml", "layer.fc = ['x']", "'layer' is a table; a name with dots stands in quotes"),
        ("c.py", "cfgs = {}", "c.py: it sets no `cfg`"),
        ("c.py", "cfg = {\n", "c.py:1: '{' was never closed"),
        ("c.py", "cfg = 3\n", "maps modules to lists of quantities, this is a int"),
        ("c.py", "\nraise OSError('ours')\n", "running c.py raised OSError: ours"),
    ],
)
def test_a_file_that_is_no_configuration_is_told(cli, models, write, name, text, told):
    code, out, err = cli("check", f"{models}:net", write(name, text))
    assert (code, out) == (2, "")
    assert told in err


def test_a_file_that_cannot_be_read_is_told(cli, models, tmp_path):
    assert "none.yaml: it cannot be read" in cli("check", f"{models}:net", "none.yaml")[2]
    (tmp_path / "latin.yaml").write_bytes(b"\xe9: [x]")
    assert "latin.yaml: it cannot be read" in cli("check", f"{models}:net", "latin.yaml")[2]


@pytest.mark.parametrize(("module", "extra"), [("yaml", "yaml"), ("tomllib", "toml")])
def test_a_missing_library_names_the_extra(cli, models, write, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "version_info", (3, 11))
    code, _, err = cli("check", f"{models}:net", write(f"c.{extra}", ""))
    assert code == 2
    assert err.endswith(f"pip install 'taiyi-fx[{extra}]'\n")


def test_lines_are_not_guessed_where_a_file_computes_its_keys(cli, models, write):
    cfg = write("c.py", 'cfg = {"Block": ["OutputNorm"]}\ncfg.update({"Blok": ["OutputNorm"]})\n')
    _, _, err = cli("check", f"{models}:net", cfg)
    assert err.startswith("c.py: cfg['Blok']: no module")


def test_what_will_see_nothing_is_a_warning(cli, models, write):
    source = """
from torch import nn

class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.two(self.one(x).detach())
"""
    cut = write("cut.py", source).removesuffix(".py")
    code, _, err = cli("check", f"{cut}:Cut", write("c.yaml", "Linear: [OutputGradNorm]\n"))
    assert code == 0
    assert err.startswith("warning: some probes will see nothing:\n  - 'one'")


def test_a_model_that_cannot_be_instrumented_is_told(cli, models, write):
    write(
        "wrapped.py",
        f"from torch import nn\nimport {models}\n\ndef net():\n    return nn.DataParallel({models}.net())\n",
    )
    code, _, err = cli("check", "wrapped:net", write("c.yaml", "Block: [OutputNorm]\n"))
    assert code == 2
    assert "instrument the model before it is wrapped" in err


def test_graph_draws_where_the_probes_stand(cli, models, write, tmp_path):
    cfg = write("c.yaml", YAML.replace("OutputMean", "OutputRMS"))
    code, out, _ = cli("graph", f"{models}:net", cfg, "-o", "probes.dot")
    assert code == 0
    assert out.startswith("probes.dot: diagram of ")
    text = (tmp_path / "probes.dot").read_text(encoding="utf-8")
    assert text.startswith("digraph")
    assert "MeanTID" in text


def test_graph_shows_as_much_as_is_asked_for(cli, models, write):
    cfg = write("c.yaml", YAML.replace("OutputMean", "OutputRMS"))

    def boxes(*options):
        code, out, _ = cli("graph", f"{models}:net", cfg, "-o", "probes.dot", *options)
        assert code == 0
        return int(out.split(" boxes")[0].rpartition(" ")[2])

    assert boxes("--depth", "0") < boxes("--depth", "full")
    assert boxes("--only-probed") < boxes()
    assert boxes("--direction", "LR") == boxes()
    code, _, err = cli("graph", f"{models}:net", cfg, "-o", "probes.dot", "--expand", "nothing")
    assert code == 2
    assert "no module 'nothing' to expand" in err


def test_graph_tells_what_no_depth_is(cli, models, capsys):
    with pytest.raises(SystemExit):
        cli("graph", f"{models}:net", "c.yaml", "-o", "probes.dot", "--depth", "deep")
    assert "'deep' is neither a number of levels nor auto nor full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "told"),
    [("probes.txt", "should end in .html"), ("no/such/folder.dot", "there is no folder")],
)
def test_graph_tells_where_it_cannot_write(cli, models, write, file, told):
    cfg = write("c.yaml", "Block: [OutputNorm]\n")
    code, _, err = cli("graph", f"{models}:net", cfg, "-o", file)
    assert code == 2
    assert told in err
