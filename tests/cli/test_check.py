"""`taiyi-fx check`."""

import re

import pytest

from tests.cli.configurations import YAML


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


def test_check_without_a_configuration_takes_the_preset_that_fits(cli, models):
    code, out, err = cli("check", f"{models}:made")
    assert (code, err) == (0, "")
    assert "preset      convolutional, as no CFG is given\n" in out
    _, named, _ = cli("check", f"{models}:made", "convolutional")
    assert named.replace("\n", "") == re.sub("preset .*", "", out).replace("\n", "")


def test_check_of_a_preset_that_is_none_suggests_one(cli, models):
    code, _, err = cli("check", f"{models}:made", "transfomer")
    assert code == 1
    assert "cfg: no preset is named 'transfomer'. Did you mean 'transformer'?" in err


def test_check_takes_a_list_from_a_python_file(cli, models, write):
    cfg = write("c.py", 'cfg = ["mlp", {"2": [["WeightNorm", "at_steps(3)"]]}]')
    code, out, _ = cli("check", f"{models}:made", cfg)
    assert code == 0
    assert "at_steps(3)" in out
