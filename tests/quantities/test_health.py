"""Which rule of health each quantity declares, and that one's own quantity has its part."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import input, output, quantity
from taiyi_fx.pictures.report import state_of
from taiyi_fx.quantities.health import RULES

DECLARED = {
    "share_of_trouble": {
        "OutputDeathRate", "DeadExperts", "DeadNeuronRatio", "ParameterGradDeathRate",
        "OverflowRate", "UnderflowRate", "InputOverflowRate", "InputUnderflowRate",
        "OutputGradOverflowRate", "OutputGradUnderflowRate", "WeightOverflowRate",
        "WeightUnderflowRate", "WeightGradOverflowRate", "WeightGradUnderflowRate",
    },
    "counts_non_finite": {"NonFinite", "InputNonFinite", "OutputGradNonFinite"},
    "lasting": {
        "AttentionEntropy", "HeadNorm", "InputAbsMax", "InputRMS", "InputSndNorm", "InputStd", "InputCovMaxEig",
        "InputCovStableRank", "InputParticipationRatio", "OutputAbsMax", "OutputNorm", "OutputRMS",
        "OutputActivationRate", "ParticipationRatio", "RankMe", "ParameterNorm", "ParameterRMS",
        "RouterEntropy", "WeightNorm", "WeightSpectralNorm", "WeightStableRank",
    },
    "step_size": {"UpdateRatio"},
}  # fmt: skip


@pytest.mark.parametrize("health", RULES)
def test_these_quantities_declare_the_rule_and_no_others(health):
    infos = [i for i in taiyi_fx.quantities() if i.declared_in.startswith("taiyi_fx.")]
    assert {info.name for info in infos if info.health == health} == DECLARED[health]


def test_nothing_of_a_gradient_is_said_to_last():
    infos = [info for info in taiyi_fx.quantities() if info.health == "lasting"]
    assert not [info.name for info in infos if any("gradient" in site for site in info.sites)]


def test_the_rules_are_read_without_torch():
    code = "import sys, taiyi_fx.quantities.health; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@quantity("silent_share", health="share_of_trouble", n=output.count)
def silent_share(n):
    """A share that is always high."""
    return 0 * n + 0.7


def test_ones_own_rule_is_kept_by_a_run_and_told_by_report_and_diagram(tmp_path):
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": [silent_share]}, run=tmp_path / "run")  # fmt: skip
    model(torch.ones(1, 2))
    model.monitor.track(0)
    diagram = taiyi_fx.diagram(model)
    model.monitor.close()
    (stored,) = taiyi_fx.open_run(tmp_path / "run").source.series()
    assert stored.health == "share_of_trouble"
    assert state_of([0.7], stored.health).state == "alert"
    assert [one.state for one in diagram._latest.values()] == ["alert"]


def test_ones_own_count_of_what_is_not_finite_names_its_sites():
    @quantity("bad_inputs", health="counts_non_finite", found=input.non_finites)
    def bad_inputs(found):
        return found.nan + found.inf

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": [bad_inputs]})
    model(torch.tensor([[1.0, torch.nan]]))
    with pytest.warns(taiyi_fx.MonitorWarning, match="the first NaN or Inf is in the input of '0'"):
        model.monitor.track(0)
    assert [(site.module, site.count) for site in model.monitor.non_finite] == [("0", 1)]
