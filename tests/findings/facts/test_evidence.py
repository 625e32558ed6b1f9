"""Series of a monitor's records and of a run, as rules see them."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Evidence, Findings, Watched
from taiyi_fx.findings.facts.evidence import is_update_of
from tests.findings.given import evidence


def test_siblings_are_of_one_kind():
    found = evidence({("h.0.fc", "WeightNorm"): 1, ("h.11.fc", "WeightNorm"): 1})
    assert set(found.kinds.values()) == {frozenset({"WeightNorm"})}


def test_what_was_known_before_a_step():
    found = evidence({("a", "WeightNorm"): [1, 2, 3], ("b", "WeightNorm"): [4.0]}, None)
    assert [one.values.tolist() for one in found.before(1).series] == [[1.0], [4.0]]
    assert evidence({("b", "WeightNorm"): [4.0]}, [5]).before(5).series == ()


def test_a_monitor_and_its_run_have_the_same_evidence(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    cfg = {nn.Linear: ["WeightNorm", "OutputGradRMS"], "1": ["DeadNeuronRatio"]}
    model = taiyi_fx.instrument(model, cfg, run=tmp_path / "run")
    for step in range(4):
        model(torch.randn(5, 3)).sum().backward()
        model.monitor.log("loss", 1.0)
        model.monitor.track(step)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            taiyi_fx.watch.diagnosis, "find", lambda found, **_: seen.append(found) or Findings()
        )
        patch.setattr(
            taiyi_fx.runs.run, "find_beside", lambda _, found: seen.append(found) or Findings()
        )
        assert model.monitor.findings == []
        model.monitor.close()
        with taiyi_fx.open_run(tmp_path / "run") as run:
            assert run.findings == []
    one, other = ({s[:5]: s for s in found.series} for found in seen)
    assert one.keys() == other.keys()
    assert ("", "loss", "", "", "") in one
    assert ("0", "OutputGradRMS", "backward", "", "") in one
    for name, series in one.items():
        np.testing.assert_array_equal(series.steps, other[name].steps)
        np.testing.assert_array_equal(series.values, other[name].values)


def test_steps_since_the_last_due_one_count_as_one_step_each():
    steps = np.array([1, 2, 3, 5, 9])
    facts = ("parameter", "step_size", "ratio")
    found = Watched.made(("fc", "UpdateRatio.weight"), facts, steps, np.array([1.0, 1, 1, 2, 4]))
    assert found.values.tolist() == [1, 1, 1, 1, 1]
    sparse = Watched.made(("fc", "UpdateRatio.weight"), facts, np.array([10, 20]), np.ones(2))
    assert sparse.values.tolist() == [0.1, 0.1]
    alone = Watched.made(("fc", "UpdateRatio.weight"), facts, np.array([10]), np.ones(1))
    assert alone.values.tolist() == [1]


def test_there_may_be_nothing():
    assert Evidence.of([]).last_step == 0
    assert evidence({("fc", "WeightNorm"): []}).series == ()


def test_what_was_skipped_is_neither_a_gradient_nor_an_update():
    numbers = {("a", "WeightGradNorm"): [9, 1, 2], ("a", "WeightNorm"): [5, 5, 6]}
    known = evidence(numbers | {("a", "OutputRMS"): [3, 4, 5]}).series
    moved = Watched.made(
        ("a", "UpdateRatio.weight"),
        ("parameter", "step_size", "ratio"),
        np.array([1, 2]),
        np.array([0.0, 0.1]),
    )
    found = Evidence.of([*known, moved]).without_skipped([0]).series
    assert {one.quantity: one.steps.tolist() for one in found} == {
        "WeightGradNorm": [1, 2],
        "WeightNorm": [1, 2],
        "OutputRMS": [0, 1, 2],
        "UpdateRatio.weight": [2],
    }


def test_a_window_of_later_steps_is_not_from_the_start():
    assert evidence({("a", "WeightNorm"): [1, 2]}, [0, 1]).is_from_the_start
    assert not evidence({("a", "WeightNorm"): [1, 2]}, [7, 8]).is_from_the_start


def test_what_a_module_returns_comes_behind_what_those_within_return():
    names = ("", "h.0", "h.0.fc", "h.0.act", "h.1", "h.1.fc")
    known = evidence({(name, q): 1.0 for name in names for q in ("OutputRMS", "InputRMS")})
    order = [one.module for one in known.of_quantity("OutputRMS")]
    assert order == ["h.0.fc", "h.0.act", "h.0", "h.1.fc", "h.1", ""]
    assert [one.module for one in known.of_quantity("InputRMS")] == [*names]


def test_branches_began_at_nothing_where_a_weight_of_zero_lets_no_gradient_pass():
    late = [0.0, 1e-6, 1e-5]
    numbers = {("a", "OutputGradRMS"): late, ("b", "OutputGradRMS"): [1.0] * 3}
    assert evidence(numbers).in_branches == frozenset()
    numbers["b", "WeightNorm"] = late
    assert evidence(numbers).in_branches == {"a"}


def test_an_update_is_recorded_at_the_number_after_its_step():
    (one,) = evidence({("a", "UpdateRatio.weight"): np.ones(4)}, [0, 5, 10, 15]).series
    assert is_update_of(one, np.array([0, 10, 15])).tolist() == [False, True, False, True]
    assert not is_update_of(one, np.array([], int)).any()


def test_evidence_with_other_series_leaves_out_empty_ones():
    known = evidence({("a", "WeightNorm"): 1, ("b", "WeightNorm"): 1})
    cut = known.with_series(s.before(0 if s.module == "a" else 3) for s in known.series)
    assert [(s.module, len(s.values)) for s in cut.series] == [("b", 3)]


def logged(steps, mode, name="loss"):
    return Watched.made(
        ("", name), ("", "", ""), np.array(steps), np.arange(len(steps)) + 1.0, mode
    )


def test_a_loss_of_each_step_in_evaluation_mode_is_of_a_training_in_that_mode():
    """As of a model that nobody puts back into training mode after an evaluation."""
    every = Evidence.of([logged(range(10), "train"), logged(range(10, 40), "eval")])
    (loss,) = every.logged.losses
    assert (loss.steps.tolist(), every.evaluated) == ([*range(40)], ())
    assert Evidence.of([logged(range(40), "eval")]).logged.losses[0].mode == "train"


@pytest.mark.parametrize(
    "steps", [range(9, 400, 10), range(30, 40), range(5, 40)], ids=["rarer", "few", "beside"]
)
def test_a_loss_of_evaluations_beside_a_training_is_none_of_it(steps):
    every = Evidence.of([logged(range(10), "train"), logged(steps, "eval")])
    assert [len(loss.steps) for loss in every.logged.losses] == [10]
    assert [len(loss.steps) for loss in every.logged.losses_of_evaluation] == [len(steps)]


def test_a_loss_of_evaluation_after_each_step_of_a_training_is_none_of_it():
    every = Evidence.of([logged(range(40), "train"), logged(range(40), "eval", "nll_loss")])
    assert [loss.quantity for loss in every.logged.losses] == ["loss"]
    assert [loss.quantity for loss in every.logged.losses_of_evaluation] == ["nll_loss"]


def test_of_a_long_training_in_evaluation_mode_the_latest_steps_in_a_row_tell():
    thinned = [*range(10, 20), *range(50, 2000, 64), *range(2000, 2064)]
    every = Evidence.of([logged(range(10), "train"), logged(thinned, "eval")])
    assert ([len(loss.steps) for loss in every.logged.losses], every.evaluated) == (
        [10 + len(thinned)],
        (),
    )
