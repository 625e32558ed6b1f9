"""transformers' Trainer: it trains as without the callback, with the records of a plain loop."""

import copy

import pytest
import torch
from torch.utils.data import Dataset, SequentialSampler

import taiyi_fx
from tests.trainers.digits import (
    Noting,
    assert_goes_on,
    assert_same_tensors,
    broken,
    values,
)

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from taiyi_fx.trainers.huggingface import MonitorCallback

CFG = {
    "Conv1D": ["InputSndNorm", ["OutputGradSndNorm", "linear(2, 1)"], ["WeightGradNorm", "every(3)"]],
    "LayerNorm": [["OutputGradRMS", "every(2)"], ["InputCovMaxEig", "linear(2, 1)"]],
}  # fmt: skip


class Text(Dataset):
    def __init__(self, rows):
        self.rows = torch.randint(40, (rows, 9), generator=torch.Generator().manual_seed(3))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, *args):
        return SequentialSampler(self.train_dataset)


def gpt(drop=0.1):
    torch.manual_seed(0)
    drops = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), drop)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=16, n_embd=8, n_layer=2, n_head=2, **drops
    )
    return transformers.GPT2LMHeadModel(config).double()


def watched(model):
    return taiyi_fx.instrument(copy.deepcopy(model), CFG)


def trained(model, folder, *, rows, callbacks=(), resumes=False, scaler=None, **options):
    options = {"num_train_epochs": 1, "logging_steps": 1, "save_strategy": "no", **options}
    arguments = transformers.TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        lr_scheduler_type="constant",
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=False,
        **options,
    )
    made = InOrder(model, arguments, train_dataset=Text(rows), callbacks=[*callbacks])
    made.accelerator.scaler = scaler
    made.train(resume_from_checkpoint=resumes)
    return made


def train_plainly(model, rows, accumulate):
    text = Text(rows).rows
    optimizer = torch.optim.AdamW(model.parameters(), 5e-5, weight_decay=0.0)
    model.train()
    for i, x in enumerate(text.split(4), 1):
        # As the Trainer has it: the sum over all tokens of a step, by the number of its labels.
        labels = accumulate * x.numel()
        model(input_ids=x, labels=x, num_items_in_batch=labels).loss.backward()
        if i % accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model.monitor.track(i // accumulate - 1)
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("accumulate", [1, 4])
def test_training_is_the_same_with_the_callback(accumulate, tmp_path):
    plain = gpt()
    called = watched(plain)
    options = {"rows": 12 * accumulate, "gradient_accumulation_steps": accumulate}
    seen = trained(called, tmp_path, callbacks=[MonitorCallback()], **options)
    unseen = trained(plain, tmp_path, **options)
    assert_same_tensors(called, plain)
    losses = [[entry.get("loss") for entry in t.state.log_history] for t in (seen, unseen)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_records_are_those_of_a_plain_loop(accumulate, tmp_path):
    looped, called = watched(gpt(drop=0.0)), watched(gpt(drop=0.0))
    rows = 4 * 5 * accumulate
    options = {"rows": rows, "gradient_accumulation_steps": accumulate}
    train_plainly(looped, rows, accumulate)
    trained(called, tmp_path, callbacks=[MonitorCallback()], **options)
    expected = values(looped.monitor)
    assert {step for step, _, _ in expected} == set(range(5))
    assert values(called.monitor) == pytest.approx(expected, rel=1e-9)


def test_the_factor_of_a_scaler_is_taken_out(tmp_path):
    without, scaled = watched(gpt(drop=0.0)), watched(gpt(drop=0.0))
    for model, scaler in ((without, None), (scaled, torch.amp.GradScaler("cpu", init_scale=64.0))):
        options = {"scaler": scaler, "max_grad_norm": 0.0, "gradient_accumulation_steps": 2}
        trained(model, tmp_path, rows=32, callbacks=[MonitorCallback()], **options)
    assert_same_tensors(without, scaled)
    assert values(scaled.monitor) == pytest.approx(values(without.monitor), rel=1e-9)


def test_a_run_resumed_from_a_checkpoint_goes_on_at_its_step(tmp_path):
    whole, first, second = (watched(gpt(drop=0.0)) for _ in range(3))
    writer = Noting()
    options = {"rows": 24, "gradient_accumulation_steps": 2}
    trained(whole, tmp_path / "whole", num_train_epochs=2, callbacks=[MonitorCallback()], **options)
    trained(first, tmp_path, save_strategy="epoch", callbacks=[MonitorCallback()], **options)
    trained(
        second,
        tmp_path,
        num_train_epochs=2,
        resumes=True,
        callbacks=[MonitorCallback(writers=[writer])],
        **options,
    )
    assert_goes_on(second, whole, writer)
    saved = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "checkpoint-3")
    assert {*saved.state_dict()} == {*gpt().state_dict()}


class OfItsOwn(torch.nn.Module):
    """A model that is not told how many tokens the micro-batches of a step have."""

    def __init__(self):
        super().__init__()
        self.gpt = gpt(drop=0.0)

    def forward(self, input_ids, labels):
        return {"loss": self.gpt(input_ids=input_ids, labels=labels).loss}


@pytest.mark.parametrize("make", [lambda: gpt(drop=0.0), OfItsOwn])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_loss_of_each_step_is_recorded_however_rarely_the_trainer_logs(
    make, accumulate, tmp_path
):
    model, plain = taiyi_fx.instrument(make(), {"LayerNorm": ["OutputNorm"]}), make()
    options = {"rows": 20 * accumulate, "gradient_accumulation_steps": accumulate}
    trained(model, tmp_path, logging_steps=500, callbacks=[MonitorCallback()], **options)
    made = trained(plain, tmp_path, **options)
    expected = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    found = model.monitor.get_output()[""]["training loss"]
    assert list(found) == [0, 1, 2, 3, 4]
    assert list(found.values()) == pytest.approx(expected, rel=1e-3)


def test_what_the_trainer_logs_is_recorded(tmp_path):
    model = watched(gpt())
    made = trained(model, tmp_path, rows=12, callbacks=[MonitorCallback()])
    logged = {mode: model.monitor.get_output(mode).get("", {}) for mode in ("train", "eval")}
    history = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    assert logged["train"]["loss"] == dict(enumerate(history))
    assert "train_runtime" in logged["train"]
    made.evaluate(Text(4))
    loss = model.monitor.get_output("eval")[""]["eval_loss"]
    assert loss == {2: made.state.log_history[-1]["eval_loss"]}


@pytest.mark.parametrize("schedule", ["every(1)", "linear(2, 1)"])
def test_bfloat16_stays_bfloat16_whatever_is_due(schedule, tmp_path):
    """The Trainer puts a forward under autocast around the model's."""
    plain = gpt().float()
    called = taiyi_fx.instrument(copy.deepcopy(plain), {"Conv1D": [["InputSndNorm", schedule]]})
    trained(called, tmp_path, rows=16, bf16=True, callbacks=[MonitorCallback()])
    trained(plain, tmp_path, rows=16, bf16=True)
    assert_same_tensors(called, plain)
    due = {step for step, _, _ in values(called.monitor)}
    assert due == ({0, 1, 2, 3} if schedule == "every(1)" else {1, 3})


def test_an_evaluation_before_any_training_is_logged_as_ever(tmp_path):
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    model = watched(gpt())
    made = InOrder(model, arguments, eval_dataset=Text(4), callbacks=[MonitorCallback()])
    assert "eval_loss" in made.evaluate()
    assert not model.monitor.records


def test_a_model_that_is_not_instrumented_is_said(tmp_path):
    with pytest.raises(LookupError, match=r"no part of the GPT2LMHeadModel is instrumented"):
        trained(gpt(), tmp_path, rows=4, callbacks=[MonitorCallback()])


def test_the_optimizer_is_known(tmp_path):
    model = taiyi_fx.instrument(gpt(), {"": ["LearningRate", "GradNorm"]})
    trained(model, tmp_path, rows=8, callbacks=[MonitorCallback()])
    found = model.monitor.get_output()[""]
    # The Trainer has two groups, with weight decay and without.
    assert found["LearningRate.group0"] == found["LearningRate.group1"] == {0: 5e-5, 1: 5e-5}
    assert found["GradNorm"][1] <= 1.0 + 1e-5  # as it clips before


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_finding_stops_the_trainer(tmp_path):
    model = broken(watched(gpt()))
    made = trained(model, tmp_path, rows=20, callbacks=[MonitorCallback()])
    assert made.state.global_step == 1
    assert model.monitor.findings[0].kind == "non_finite"
