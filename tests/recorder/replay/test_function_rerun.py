"""The user's own functions of steps, run again."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.recorder import load_bad_step
from taiyi_fx.recorder.replay.step_function import StepFunctionFailed
from taiyi_fx.snapshot.bitwise import difference
from tests.recorder.replay.given import Net, line_of

AT = 4
ROWS = [torch.randn(8, 4, generator=torch.Generator().manual_seed(i)) for i in range(8)]


class Training:
    """A training whose steps are functions; one of them brings a NaN."""

    def __init__(self, fault=None, every=1, kind=torch.optim.Adam, run=None, **options):
        torch.manual_seed(0)
        self.model, self.fault, self.now = Net(), fault, 0
        self.optimizer = kind(self.model.parameters(), lr=0.01)
        self.recorder = taiyi_fx.Recorder(checkpoint_every=every, **options)
        self.one = taiyi_fx.instrument(
            self.model,
            {nn.Module: ["NonFinite"]},
            optimizer=self.optimizer,
            recorder=self.recorder,
            run=run,
        )
        self.monitor = self.one.monitor
        self.count = 0

    def loss(self, y, now):
        loss = F.cross_entropy(y, torch.zeros(8).long())
        return loss if self.fault is None or now != AT else self.fault(loss)

    def run(self, step_of, steps=7):
        """Runs a loop; returns the replays, and what was warned of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MonitorWarning)
            for self.now in range(steps):
                self.optimizer.zero_grad()
                step_of(ROWS[self.now], self.now)
                self.monitor.track(self.now)
                self.optimizer.step()
            self.monitor.close()
        self.texts = [str(one.message) for one in caught]
        return self.recorder.replays


def root_of_negative(loss):
    return torch.sqrt(loss - 100)


def backward_alone(loss):
    zero = loss - loss.detach()
    return loss + torch.sqrt(zero * zero)


@pytest.mark.parametrize("every", [1, 3])
def test_an_operation_of_the_loss_is_named_with_its_line(every):
    given = Training(root_of_negative, every)

    @given.recorder.step
    def step(x, now):
        given.loss(given.one(x), now).backward()

    found = given.run(step)[0]
    assert (found.step, found.phase, found.operation) == (AT, "forward", "sqrt")
    assert (found.file, found.line) == (__file__, line_of(root_of_negative, "sqrt"))
    assert (found.module, found.is_outside, found.is_exact) == ("", True, True)
    assert found.stack[0].startswith(f"{__file__}:")
    assert "sqrt, outside of the model" in str(found)


def test_an_operation_of_its_backward_is_named_by_the_line_of_the_forward():
    given = Training(backward_alone)

    @given.recorder.step
    def step(x, now):
        given.loss(given.one(x), now).backward()

    found = given.run(step)[0]
    assert (found.step, found.phase) == (AT, "backward")
    assert found.operation.startswith("SqrtBackward0")
    assert found.line == line_of(backward_alone, "torch.sqrt")
    assert (found.is_outside, found.is_exact) == (True, True)


def test_a_fault_by_a_variable_that_is_not_kept_did_not_happen_as_it_did_then():
    given, armed = Training(every=3), []

    @given.recorder.step
    def step(x, now):
        armed.extend([now] * (now == AT))
        loss = given.loss(given.one(x), now)
        (backward_alone(loss) if armed else loss).backward()

    found = given.run(step)[0]
    assert (found.step, found.phase, found.is_exact) == (AT - 1, "backward", False)
    assert "gradients are not finite, and were as the step was tracked" in found.note


def log_of_negative(loss):
    return torch.log(loss - 100)


def test_a_loss_of_nan_whose_gradients_are_finite_is_traced_from_its_alert():
    given = Training(log_of_negative)

    @given.recorder.step
    def step(x, now):
        loss = given.loss(given.one(x), now)
        given.monitor.log("loss", loss.detach())
        loss.backward()

    found = given.run(step)[0]
    assert (found.step, found.operation, found.is_exact) == (AT, "log", True)
    assert found.line == line_of(log_of_negative, "torch.log")


def test_a_function_may_leave_backward_to_its_caller():
    given = Training(root_of_negative)
    loss_of = given.recorder.step(lambda x, now: {"loss": given.loss(given.one(x), now)})
    found = given.run(lambda x, now: (loss_of(x, now)["loss"] / 4).backward())[0]
    assert (found.step, found.operation, found.is_exact) == (AT, "sqrt", True)


def test_an_operation_of_the_model_is_named_as_before():
    given = Training()
    given.model.between, given.model.at = lambda h: torch.log(h - 100), AT
    step = given.recorder.step(lambda x, now: given.loss(given.one(x), now).backward())
    found = given.run(step)[0]
    assert (found.step, found.operation) == (AT, "log")
    assert (found.is_outside, found.is_exact) == (False, True)


def test_micro_batches_are_calls_of_the_function():
    given = Training(root_of_negative)
    step = given.recorder.step(lambda x, now: given.loss(given.one(x), now).backward())
    found = given.run(lambda x, now: [step(x, now), step(x + 1, now)])[0]
    assert (found.step, found.operation, found.is_exact) == (AT, "sqrt", True)


@pytest.mark.parametrize("tracks", [True, False])
def test_what_follows_the_track_or_the_optimizers_step_is_not_run_again(tracks):
    given = Training(root_of_negative)

    @given.recorder.step
    def whole(x, now):
        given.optimizer.zero_grad()
        given.loss(given.one(x), now).backward()
        given.monitor.log("loss", 1.0)
        if tracks:
            given.monitor.track(given.now)
            given.optimizer.step()
            given.count += 1

    for given.now in range(AT + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole(ROWS[given.now], given.now)
            if not tracks:
                given.monitor.track(given.now)
                given.optimizer.step()
    found = given.recorder.replays[0]
    assert (found.step, found.operation, found.is_exact) == (AT, "sqrt", True)
    assert given.count == (AT + 1 if tracks else 0)
    assert len(given.monitor.records.select(quantity="loss")) == AT + 1


def trained(uses_recorder, fault=root_of_negative):
    """All bits of a training with a teacher and a loss with a buffer, beside the model."""
    given = Training(fault)
    torch.manual_seed(3)
    teacher, centre = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), nn.BatchNorm1d(2)

    def step(x, now):
        given.optimizer.zero_grad(set_to_none=False)
        y = given.one(x) - teacher(x).detach() + 0.1 * torch.rand(8, 2)
        given.loss(centre(y), now).backward()

    given.run(given.recorder.step(step) if uses_recorder else step)
    bits = dict(given.model.state_dict())
    for name, module in (("teacher", teacher), ("centre", centre)):
        bits |= {f"{name}.{key}": x for key, x in module.state_dict().items()}
        bits |= {f"{name}.{key}'": p.grad for key, p in module.named_parameters()}
    for i, state in enumerate(given.optimizer.state.values()):
        bits |= {f"{i}.{key}": x for key, x in state.items()}
    return bits | {"drawn": torch.rand(1)}, given


def test_a_training_is_the_same_to_the_bit():
    plain, _ = trained(uses_recorder=False)
    found, given = trained(uses_recorder=True)
    assert given.recorder.replays[0].operation == "sqrt"
    assert plain.keys() == found.keys()
    different = [n for n, x in plain.items() if x is not None and difference(x, found[n])]
    assert different == []


def test_a_reference_is_kept_in_place_of_the_batch_which_is_made_anew():
    given, made = Training(root_of_negative), []

    def batch(row):
        made.append(row)
        return ROWS[row], row

    @given.recorder.step(reference=lambda batch: batch[1], batch=batch)
    def step(batch, now):
        given.loss(given.one(batch[0]), now).backward()

    found = given.run(lambda x, now: step((x, now), now))[0]
    assert (found.operation, found.is_exact) == ("sqrt", True)
    assert AT in made


def test_with_a_reference_no_batch_is_held():
    given = Training()
    step = given.recorder.step(reference=lambda x: 0, batch=lambda row: ROWS[row])(
        lambda x, now: given.one(x).sum().backward()
    )
    step(ROWS[0], 0)
    given.monitor.track(0)
    (kept,) = given.recorder._kept._keeper.steps
    assert kept.calls[0].args == ()
    assert kept.functions[0].args == (0, 0)


def test_a_bad_step_of_a_reference_has_its_batch_in_the_file(tmp_path):
    given = Training(root_of_negative, run=tmp_path / "run")
    refers = given.recorder.step(reference=lambda x: given.now, batch=lambda row: ROWS[row])
    found = given.run(refers(lambda x, now: given.loss(given.one(x), now).backward()))[0]
    bad = load_bad_step(tmp_path / "run" / "bad-step.safetensors")
    assert torch.equal(bad.steps[-1].calls[0].args[0], ROWS[AT])
    assert bad.replay == type(found)(**{**vars(found), "saved": ""})


FILE = "bad-step.safetensors"


def step_of(model, x, now, fault=root_of_negative):
    """A step as a training and another process have it."""
    loss = F.cross_entropy(model(x), torch.zeros(8).long())
    (fault(loss) if now == AT else loss).backward()


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("refers", [False, True])
def test_a_file_runs_again_elsewhere_with_the_function(tmp_path, every, refers):
    given = Training(every=every, run=tmp_path)
    kinds = {"reference": lambda batch: given.now, "batch": lambda row: ROWS[row]}
    if refers:
        step = given.recorder.step(**kinds)(lambda x, now: step_of(given.one, x, now))
        found = given.run(step)[0]
        elsewhere = Net()
        again = load_bad_step(tmp_path / FILE).run_on(
            elsewhere, lambda x, now: step_of(elsewhere, x, now)
        )
    else:
        step = given.recorder.step(step_of)
        found = given.run(lambda x, now: step(given.one, x, now))[0]
        again = load_bad_step(tmp_path / FILE).run_on(Net(), step_of)
    assert (again.step, again.operation, again.phase, again.is_exact, again.is_outside) == (
        (AT, "sqrt", "forward", True, True)
    )
    assert again.line == found.line == line_of(root_of_negative, "sqrt")


def test_elsewhere_the_functions_optimizer_ends_it_and_gradients_may_be_left_to_the_caller(
    tmp_path,
):
    given = Training(run=tmp_path)

    def whole(model, optimizer, x, now):
        optimizer.zero_grad()
        step_of(model, x, now)
        optimizer.step()

    stepping = given.recorder.step(whole)
    given.run(lambda x, now: stepping(given.one, given.optimizer, x, now), AT + 1)
    model = Net()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    again = load_bad_step(tmp_path / FILE).run_on(model, whole)
    assert (again.operation, again.is_exact) == ("sqrt", True)
    assert not any(difference(x, before[name]) for name, x in model.state_dict().items())

    left = Training(root_of_negative, run=tmp_path / "left")
    loss_of = left.recorder.step(lambda model, x, now: left.loss(model(x), now))
    left.run(lambda x, now: loss_of(left.one, x, now).backward(), AT + 1)
    again = load_bad_step(tmp_path / "left" / FILE).run_on(
        Net(),
        lambda model, x, now: root_of_negative(F.cross_entropy(model(x), torch.zeros(8).long())),
    )
    assert (again.operation, again.is_exact) == ("sqrt", True)


def test_elsewhere_a_function_that_fails_or_is_not_in_the_file_is_told(tmp_path):
    given = Training(root_of_negative, run=tmp_path)
    step = given.recorder.step(lambda x, now, also: given.loss(given.one(x), now).backward())
    given.run(lambda x, now: step(x, now, object()), AT + 1)
    bad = load_bad_step(tmp_path / FILE)
    with pytest.raises(
        ValueError, match="no calls of a function of the step: 0.args.2 is a object"
    ):
        bad.run_on(Net(), step_of)
    assert bad.run_on(Net()).operation == "the gradient that reached output 0 of the model"

    own = Training(root_of_negative, run=tmp_path / "own")
    own.run(lambda x, now: own.loss(own.one(x), now).backward(), AT + 1)
    with pytest.raises(ValueError, match=r"outside of one that recorder\.step has"):
        load_bad_step(tmp_path / "own" / FILE).run_on(Net(), step_of)

    named = Training(run=tmp_path / "named")
    step = named.recorder.step(step_of)
    named.run(lambda x, now: step(named.one, x, now), AT + 1)
    with pytest.raises(StepFunctionFailed, match="fails raised KeyError: 'lost'"):
        load_bad_step(tmp_path / "named" / FILE).run_on(Net(), fails)


def test_a_batch_that_is_made_anew_in_another_way_is_told():
    given = Training(root_of_negative)
    step = given.recorder.step(reference=lambda x: 0, batch=lambda row: ROWS[row])(
        lambda x, now: given.loss(given.one(x), now).backward()
    )
    found = given.run(step)[0]
    assert not found.is_exact
    assert "the batch that was made anew has other bits than that of then" in found.note


def fails(*args):
    raise KeyError("lost")


def test_a_function_that_fails_is_told_once_and_the_model_is_run_again_without_it():
    given = Training(lambda loss: loss * torch.nan)
    runs = []

    @given.recorder.step
    def step(x, now):
        runs.append(x)
        if len(runs) > AT + 1:
            fails()
        given.loss(given.one(x), now).backward()

    found = given.run(step, AT + 1)[0]
    assert found.operation == "the gradient that reached output 0 of the model"
    assert found.note.endswith("raised KeyError: 'lost'")
    texts = [text for text in given.texts if "run again without its function" in text]
    assert len(texts) == 1
    assert "step raised KeyError: 'lost'; step 4 is run again without its function" in texts[0]


def test_a_batch_that_cannot_be_made_anew_is_told():
    given = Training(root_of_negative)
    refers = given.recorder.step(reference=lambda x: 0, batch=fails)
    assert given.run(refers(lambda x, now: given.loss(given.one(x), now).backward()), AT + 1) == []
    assert any("making the batch anew raised KeyError: 'lost'" in text for text in given.texts)
    assert any("its batch is kept by reference alone" in text for text in given.texts)


def test_a_function_that_asserts_a_finite_loss_still_names_the_operation():
    given = Training()
    given.model.between, given.model.at = lambda h: torch.log(h - 100), AT
    given.count = 0

    @given.recorder.step
    def step(x, now):
        loss = given.loss(given.one(x), now)
        given.count += 1
        if given.count > AT + 1 and not loss.isfinite():
            raise FloatingPointError("a loss of NaN")
        loss.backward()

    found = given.run(step, AT + 1)[0]
    assert (found.operation, found.note) == (
        "log",
        "step raised FloatingPointError: a loss of NaN",
    )


def test_a_step_of_another_optimizer_is_not_made_again():
    given = Training(lambda loss: loss * torch.nan)
    other = nn.Linear(4, 4)
    critic = torch.optim.SGD(other.parameters(), 0.1)

    @given.recorder.step
    def step(x, now):
        other(x).sum().backward()
        critic.step()
        given.loss(given.one(x), now).backward()

    given.run(step, AT + 1)
    assert any("makes a step of another optimizer, SGD" in text for text in given.texts)


def test_a_call_of_the_model_beside_the_function_is_run_again_by_itself():
    given = Training(lambda loss: loss * torch.nan)
    step = given.recorder.step(lambda x, now: given.loss(given.one(x), now).backward())
    found = given.run(lambda x, now: [given.one(x).sum().backward(), step(x, now)])[0]
    assert found.operation == "the gradient that reached output 0 of the model"
    assert found.is_exact


def test_a_batch_with_a_nan_is_named_as_what_came():
    given = Training()
    step = given.recorder.step(lambda x, now: given.loss(given.one(x), now).backward())
    found = given.run(lambda x, now: step(x * torch.nan if now == AT else x, now))[0]
    assert found.operation == "argument 0 of <lambda>"


def test_an_evaluation_is_not_a_step():
    given = Training()
    step = given.recorder.step(lambda x, now: given.one(x).sum())
    with torch.no_grad():
        step(ROWS[0], 0)
    assert not given.recorder._kept._keeper.steps


def test_a_step_of_a_reference_can_be_audited():
    given = Training()
    given.recorder.audit(every=2)
    refers = given.recorder.step(reference=lambda x: given.now, batch=lambda row: ROWS[row])
    given.run(refers(lambda x, now: given.loss(given.one(x), now).backward()), 3)
    assert [(one.step, one.is_equal) for one in given.recorder.audits] == [(0, True), (2, True)]


def test_an_iterator_of_the_training_is_not_taken_from():
    given = Training(root_of_negative)
    rows = iter([*ROWS])

    @given.recorder.step
    def step():
        given.loss(given.one(next(rows)), given.now).backward()

    found = given.run(lambda x, now: step(), AT + 2)[0]
    assert found.operation == "the gradient that reached output 0 of the model"
    assert "step takes from the iterator 'rows'" in found.note
    assert torch.equal(next(rows), ROWS[AT + 2])


def test_a_generator_that_the_step_used_up_is_not_taken_for_an_empty_batch():
    given = Training()
    given.model.between, given.model.at = lambda h: torch.log(h - 100), 2 * AT

    @given.recorder.step
    def step(batch, now):
        for x in batch:
            given.loss(given.one(x), now).backward()

    found = given.run(lambda x, now: step((part for part in (x, x + 1)), now), AT + 1)[0]
    assert (found.operation, found.is_exact) == ("log", True)
    assert "argument 0 of step is or holds an iterator" in found.note


@pytest.mark.parametrize("is_stepped", [True, False])
def test_a_scaler_takes_its_scale_out_once(is_stepped):
    given = Training(root_of_negative)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    @given.recorder.step
    def step(x, now):
        scaler.scale(given.loss(given.one(x), now)).backward()
        scaler.unscale_(given.optimizer)
        given.count += 1
        if is_stepped:
            scaler.step(given.optimizer)
            scaler.update()

    def whole(x, now):
        step(x, now)
        if not is_stepped:
            scaler.step(given.optimizer)
            scaler.update()

    found = given.run(whole)[0]
    assert (found.step, found.operation, found.is_exact) == (AT, "sqrt", True)
    assert given.count == 7


def test_other_arguments_than_then_are_a_difference():
    given = Training()
    given.model.between, given.model.at = lambda h: torch.log(h - 100), AT
    step = given.recorder.step(lambda now: given.one(ROWS[given.shown] + 0 * now).sum().backward())

    def shown(x, now):
        given.shown = now
        step(now)
        given.shown = 7  # as a counter that goes on

    found = given.run(shown, AT + 1)[0]
    assert found.operation == "log"
    assert not found.is_exact
    assert "the model was given other arguments than then" in found.note


def test_what_fails_behind_backward_is_a_note():
    given = Training(root_of_negative)

    @given.recorder.step
    def step(x, now):
        given.loss(given.one(x), now).backward()
        given.count += 1
        if given.count > AT + 1:
            raise KeyError("no such column in the log")

    found = given.run(step, AT + 1)[0]
    assert (found.operation, found.is_exact) == ("sqrt", True)
    assert found.note == (
        "step raised KeyError: 'no such column in the log'; by then backward had run"
    )
    assert not any("without its function" in text for text in given.texts)
