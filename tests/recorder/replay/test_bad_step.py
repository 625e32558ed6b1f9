"""Bad steps in files."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from taiyi_fx.recorder.replay.bad_step import load_bad_step, save_bad_step
from taiyi_fx.recorder.replay.band import OF_ALERTS
from taiyi_fx.recorder.replay.plain import CannotSave
from taiyi_fx.recorder.replay.replayer import CannotReplay, replay_step
from taiyi_fx.recorder.replay.safetensors_file import write_tensors
from tests.recorder.replay.given import Kept, Net
from tests.recorder.replay.test_replayer import logs, roots


def saved(kept, file):
    found = kept.replay()
    save_bad_step(file, found, kept.steps, kept.model, [kept.optimizer])
    return found


def without_stack(replay):
    return replace(replay, stack=())


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("between", [logs, roots])
def test_it_runs_again_elsewhere_bit_for_bit(tmp_path, between, every):
    file = tmp_path / "bad-step.safetensors"
    found = saved(Kept(Net(between), every=every), file)
    bad = load_bad_step(file)
    assert bad.replay == found
    again = bad.run_on(Net(between))
    assert without_stack(again) == without_stack(found)
    assert again.is_exact


def test_the_optimizers_step_too(tmp_path):
    def spoil(step, kept):
        if step == 3:
            kept.optimizer.param_groups[0]["weight_decay"] = float("inf")

    file = tmp_path / "bad-step.safetensors"
    found = saved(Kept(Net(), before=spoil), file)
    again = load_bad_step(file).run_on(Net())
    assert again.phase == "optimizer"
    assert without_stack(again) == without_stack(found)


class Own(torch.optim.SGD):
    pass


@pytest.mark.parametrize("every", [1, 4])
def test_an_optimizer_of_ones_own_is_left_out_and_named(tmp_path, every):
    model = Net(logs)
    saved(Kept(model, Own(model.parameters(), 0.1), every), tmp_path / "a")
    again = load_bad_step(tmp_path / "a").run_on(Net(logs))
    assert (again.step, again.operation, again.is_exact) == (3, "log", True)
    assert "Own is not one of torch's, and its step was left out" in again.note


def test_a_fault_in_an_optimizer_of_ones_own_is_refused_with_what_was_found(tmp_path):
    def spoil(step, kept):
        if step == 3:
            kept.optimizer.param_groups[0]["weight_decay"] = float("inf")

    model = Net()
    saved(Kept(model, Own(model.parameters(), 0.1), before=spoil), tmp_path / "a")
    bad = load_bad_step(tmp_path / "a")
    with pytest.raises(CannotReplay, match="went wrong in the optimizer's step, .*Own") as caught:
        bad.run_on(Net())
    assert str(caught.value).endswith(str(bad.replay))


class Grown(Net):
    scale = 1.0

    def forward(self, x):
        return super().forward(x * self.scale)


@pytest.mark.parametrize("every", [1, 4])
def test_numbers_that_are_too_large_are_found_again_elsewhere(tmp_path, every):
    def spoil(step, kept):
        kept.model.scale = 5000.0 if step == 5 else 1.0

    kept, file = Kept(Grown(), every=every, before=spoil), tmp_path / "a"
    saved_of_size(kept, file)
    bad = load_bad_step(file)
    assert bad.replay.operation == "mul"
    assert without_stack(bad.run_on(Grown())) == without_stack(bad.replay)


def test_what_its_own_optimizer_alone_leads_to_is_refused_by_its_name(tmp_path):
    def spoil(step, kept):
        kept.model.scale = 5000.0 if step == 5 else 1.0

    model = Grown()
    saved_of_size(Kept(model, Own(model.parameters(), 0.1), 4, before=spoil), tmp_path / "a")
    with pytest.raises(CannotReplay, match="Own is not one of torch's"):
        load_bad_step(tmp_path / "a").run_on(Grown())


def saved_of_size(kept, file):
    found, steps = replay_step(
        5, [*kept.keeper.steps], kept.model, kept.ways, [kept.optimizer], band=OF_ALERTS
    )
    save_bad_step(file, found, steps, kept.model, [kept.optimizer])


def test_another_torch_is_named(tmp_path):
    saved(Kept(Net(logs)), tmp_path / "a")
    bad = replace(load_bad_step(tmp_path / "a"), torch="1.0", device="cuda:0")
    note = bad.run_on(Net(logs)).note
    assert "it ran on cuda:0 then, and on cpu now" in note
    assert f"torch was 1.0 then, and is {torch.__version__} now" in note


def test_another_model_is_refused(tmp_path):
    saved(Kept(Net(logs)), tmp_path / "a")
    with pytest.raises(ValueError, match=r"the model is not the one of the step: first\.weight is"):
        load_bad_step(tmp_path / "a").run_on(nn.Linear(4, 4))


def test_arguments_that_a_file_cannot_hold_are_named(tmp_path):
    kept = Kept(Net(logs))
    kept.keeper.steps[-1].calls[0].kwargs = {"cache": object()}
    kept.forward = lambda args, kwargs: kept.model(*args)
    with pytest.raises(CannotSave, match=r"kwargs\.cache is a object"):
        saved(kept, tmp_path / "a")


def test_other_files_are_refused(tmp_path):
    write_tensors(tmp_path / "a", {"x": torch.ones(1)}, {})
    with pytest.raises(ValueError, match="has tensors, and no step to be run again"):
        load_bad_step(tmp_path / "a")


def test_a_step_whose_states_are_all_spoilt_is_refused(tmp_path):
    kept = Kept(Net(logs))
    saved(kept, tmp_path / "a")
    bad = load_bad_step(tmp_path / "a")
    for one in bad.steps:
        if one.checkpoint is not None:
            one.checkpoint.tensors["model.last.bias"].fill_(torch.nan)
    with pytest.raises(CannotReplay):
        bad.run_on(Net(logs))


class Scaled(Net):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def forward(self, x):
        return super().forward(x) * torch.log(torch.tensor(float(self.shift - 1)))


def test_a_constant_that_was_mended_stays_and_what_training_changed_is_as_it_was(tmp_path):
    kept = Kept(Scaled(0), steps=1)
    found = kept.replay()
    assert found.operation == "log"
    initial = kept.keeper.initial
    save_bad_step(tmp_path / "a", found, kept.steps, kept.model, [kept.optimizer], initial)
    bad = load_bad_step(tmp_path / "a")
    assert bad.run_on(Scaled(0)).operation == "log"
    assert bad.run_on(Scaled(2)).operation == ""
    assert bad.steps[0].values[""] == {}
