"""Logits that are squashed twice."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

import taiyi_fx
from taiyi_fx.findings import classes_of, squashed_by
from taiyi_fx.findings.facts.squashed import Squashed, is_divergence

X = torch.randn(4, 5, requires_grad=True)
Y = torch.tensor([0, 1, 2, 3])
Y_OF_BOTH = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0]]).expand(4, 5)
HEAD = nn.Linear(5, 4)
W = torch.randn(6, 5, requires_grad=True)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (lambda: F.cross_entropy(X.softmax(1), Y), Squashed("squashed", "softmax")),
        (
            lambda: F.cross_entropy(X.softmax(1).view(2, 2, 5).flatten(0, 1), Y),
            Squashed("squashed", "softmax"),
        ),
        (
            lambda: F.binary_cross_entropy_with_logits(X.sigmoid(), X.detach()) / 2,
            Squashed("squashed", "sigmoid"),
        ),
        (lambda: F.cross_entropy(X.sigmoid(), Y) + X.sum(), Squashed("squashed", "sigmoid")),
        (lambda: F.cross_entropy(X.relu(), Y), Squashed("squashed", "relu")),
        (lambda: F.cross_entropy(X.view(4, 5, 1).relu().mean(2), Y), None),
        (lambda: F.cross_entropy(X.tanh().T.T, Y), Squashed("squashed", "tanh")),
        (lambda: F.cross_entropy(9 * X.tanh(), Y), None),
        (lambda: F.cross_entropy(2 * X, Y), None),
        (lambda: F.nll_loss(X.softmax(1).log(), Y), None),
        (lambda: F.cross_entropy((X.softmax(1) @ torch.eye(5)), Y), None),
        (lambda: F.nll_loss(X @ torch.eye(5), Y), Squashed("raw")),
        (lambda: 2 * F.nll_loss(X.softmax(1), Y), Squashed("raw")),
        (lambda: F.nll_loss(X.log_softmax(1), Y), None),
        (lambda: F.nll_loss(X.log_softmax(0), Y), Squashed("axis")),
        (lambda: F.nll_loss(X[0].log_softmax(0), Y[0]), None),
        (lambda: F.nll_loss(X.view(1, 5, 4).log_softmax(1).transpose(1, 2)[0], Y), None),
        (lambda: F.nll_loss(X.view(1, 5, 4).log_softmax(-2), Y[None]), None),
        (lambda: F.nll_loss(X.view(2, 2, 5).log_softmax(-1).flatten(0, 1), Y), None),
        (lambda: F.cross_entropy(F.linear(*map(F.normalize, (X, W))), Y), Squashed("cosines")),
        (lambda: F.cross_entropy(20 * F.linear(*map(F.normalize, (X, W))), Y), None),
        (lambda: F.cross_entropy(F.linear(F.normalize(X), W), Y), None),
        (lambda: F.cross_entropy(HEAD(X.softmax(-1)), Y), Squashed("shares")),
        (lambda: F.cross_entropy(HEAD(X.softmax(0)), Y), None),
        (lambda: F.cross_entropy(F.linear(X.softmax(-1), W), Y), None),
        (lambda: F.cross_entropy(HEAD(X), Y), None),
        (
            lambda: -Categorical(logits=X.softmax(1)).log_prob(Y).mean(),
            Squashed("squashed", "softmax"),
        ),
        (lambda: -Categorical(logits=X.log_softmax(1)).log_prob(Y).mean(), None),
        (lambda: -Categorical(probs=X.softmax(1)).log_prob(Y).mean(), None),
        (lambda: X.softmax(1).logsumexp(0).sum(), None),
        (lambda: F.poisson_nll_loss(F.softplus(X), Y_OF_BOTH), Squashed("rates", "softplus")),
        (
            lambda: 2 * F.poisson_nll_loss(X.exp()[:, None].squeeze(), Y_OF_BOTH),
            Squashed("rates", "exp"),
        ),
        (lambda: F.poisson_nll_loss(X, Y_OF_BOTH), None),
        (lambda: F.poisson_nll_loss(F.softplus(X), Y_OF_BOTH, log_input=False), None),
        (lambda: X, None),
        (lambda: 3.0, None),
    ],
    ids=[
        "softmax",
        "rearranged",
        "sigmoid",
        "a sum",
        "relu",
        "pooled",
        "tanh",
        "capped logits",
        "logits",
        "once",
        "inside",
        "raw",
        "no logarithm",
        "nll",
        "the axis of samples",
        "one sample",
        "rearranged axes",
        "an axis from the last on",
        "the last axis of three",
        "cosines",
        "scaled cosines",
        "unit vectors times any",
        "shares",
        "a softmax of samples",
        "a mixture of rows",
        "a layer",
        "a distribution of shares",
        "of logarithms",
        "of probabilities",
        "over another axis",
        "rates",
        "rates of exp",
        "logarithms of rates",
        "rates that are meant",
        "leaf",
        "number",
    ],
)
def test_the_function_before_a_loss_is_named(loss, name):
    assert squashed_by(loss()) == name


def test_a_loss_that_is_logged_with_its_graph_is_a_finding():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(5, 5), nn.Softmax(1)), {"0": ["OutputRMS"]})
    for step in range(3):
        loss = F.cross_entropy(model(X.detach()), Y)
        loss.backward()
        model.monitor.log("loss", loss)
        model.monitor.track(step)
    (found,) = model.monitor.findings
    assert (found.kind, found.module, found.quantity) == ("squashed_loss", "", "loss")
    assert found.text == "'loss' is cross_entropy of what '1', a softmax, returns"
    assert found.functions == ("softmax",)


def test_the_loss_function_and_the_function_before_it_are_named():
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x).sigmoid()

    model = taiyi_fx.instrument(nn.Sequential(Net(5, 5)), {"0": ["OutputRMS"]})
    for step in range(3):
        loss = F.binary_cross_entropy_with_logits(model(X.detach()), torch.ones(4, 5))
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
    (found,) = model.monitor.findings
    assert found.text == "'loss' is binary_cross_entropy_with_logits of what sigmoid returns"
    assert "binary_cross_entropy_with_logits a sigmoid" in found.advice


def test_cosines_in_the_place_of_logits_are_a_finding_with_the_least_that_they_cost():
    class Head(nn.Linear):
        def forward(self, x):
            return F.linear(F.normalize(x), F.normalize(self.weight))

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(5, 5), Head(5, 4)), {"0": ["OutputRMS"]})
    for step in range(3):
        loss = F.cross_entropy(model(X.detach()), Y)
        loss.backward()
        model.monitor.log("loss", loss)
        model.monitor.track(step)
    (found,) = model.monitor.findings
    assert found.kind == "squashed_loss"
    assert "it cannot fall below 0.341, where a guess among 4 classes costs 1.39" in found.text
    assert "scale" in found.advice


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (1.0, Squashed("cosines")),
        (0.5, Squashed("cosines", factor=0.5)),
        (10.0, None),
        (torch.ones(4, 5), None),
    ],
)
def test_a_factor_of_cosines_is_known_until_backward(factor, name):
    other = F.normalize(torch.randn(6, 5, requires_grad=True), dim=1)
    loss = F.cross_entropy(factor * F.normalize(X, dim=1) @ other.T, Y)
    assert squashed_by(loss) == name
    loss.backward()
    assert squashed_by(loss) is None


@pytest.mark.parametrize(
    ("scaled", "factor"),
    [
        (lambda cosines, scale: cosines / scale, 1 / 14),
        (lambda cosines, scale: cosines * scale, None),
        (lambda cosines, scale: scale * cosines.T, None),
        (lambda cosines, scale: cosines.T * (1 / scale), 1 / 14),
        (lambda cosines, scale: (1 / scale) * cosines, 1 / 14),
        (lambda cosines, scale: cosines / (1 / scale), None),
        (lambda cosines, scale: cosines * (scale / 14), None),
        (lambda cosines, scale: cosines / 14.0, 1 / 14),
        (lambda cosines, scale: cosines / 0.07, None),
    ],
)
def test_a_scale_of_cosines_that_is_the_wrong_way_round_is_known(scaled, factor):
    one, other = (F.normalize(torch.randn(4, 5, requires_grad=True), dim=1) for _ in "ab")
    scale = torch.tensor(14.0).log().requires_grad_()
    found = squashed_by(F.cross_entropy(scaled(one @ other.T, scale.exp()), Y))
    if factor is None:
        assert found is None
    else:
        assert found is not None
        assert (found.how, found.factor) == ("cosines", pytest.approx(factor, rel=1e-5))


def test_logits_that_nll_loss_takes_for_logarithms_are_an_alert():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(5, 5)), {"0": ["OutputRMS"]})
    for step in range(3):
        loss = F.nll_loss(model(X.detach()), Y)
        loss.backward()
        model.monitor.log("loss", loss)
        model.monitor.track(step)
    (found,) = model.monitor.findings
    assert (found.kind, found.module, found.severity) == ("unsquashed_loss", "", "alert")


@pytest.mark.parametrize("is_done", [False, True])
def test_the_number_of_classes_is_that_of_the_logits(is_done):
    losses = {
        5: F.cross_entropy(2 * X, Y) + X.sum(),
        2: F.cross_entropy(2 * X.view(2, 2, 5), torch.zeros(2, 5, dtype=torch.long)),
        0: (2 * X).square().mean(),
    }
    for classes, loss in losses.items():
        if is_done:
            loss.backward()
        assert classes_of(loss) == classes
    assert classes_of(3.0) == 0


def test_logarithms_over_the_axis_of_samples_are_a_finding():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(5, 5)), {"0": ["OutputRMS"]})
    loss = F.nll_loss(F.log_softmax(model(X.detach()), dim=0), Y)
    loss.backward()
    model.monitor.log("loss", loss)
    model.monitor.track(0)
    (found,) = model.monitor.findings
    assert (found.kind, found.severity) == ("class_axis", "alert")


def test_the_classes_of_logarithms_over_the_last_axis_are_known():
    assert classes_of(F.nll_loss(X.log_softmax(-1), Y)) == 5
    assert classes_of(F.nll_loss(X.view(2, 2, 5).log_softmax(-1).flatten(0, 1), Y)) == 5


def test_several_tasks_have_no_one_number_of_classes():
    tasks = [F.cross_entropy(X, Y), F.cross_entropy(X[:, :3], Y % 3)]
    assert classes_of(torch.stack(tasks).sum()) == 0
    assert classes_of(tasks[0] + F.cross_entropy(2 * X, Y)) == 5


@pytest.mark.parametrize(
    "loss",
    [
        lambda: F.binary_cross_entropy_with_logits(X, Y_OF_BOTH),
        lambda: F.binary_cross_entropy(X.sigmoid(), Y_OF_BOTH).mean(),
        lambda: -F.logsigmoid(X.sum(1)).mean(),
    ],
    ids=["logits", "probabilities", "preferences"],
)
def test_yes_or_no_are_two_classes(loss):
    value = loss()
    assert classes_of(value) == 2
    value.backward()
    assert classes_of(value) == 2
    assert classes_of(loss() + F.cross_entropy(X, Y)) == 0


FRAMES = torch.randn(7, 3, 5, requires_grad=True)
LAYER = nn.Linear(5, 5)


def aligned(given):
    lengths = torch.full((3,), 7), torch.full((3,), 2)
    return F.ctc_loss(given, torch.ones(3, 2, dtype=torch.long), *lengths)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (lambda: aligned(FRAMES.log_softmax(2)), None),
        (lambda: aligned(FRAMES.log_softmax(0)), Squashed("axis")),
        (lambda: aligned(FRAMES.transpose(0, 1).log_softmax(-1).transpose(0, 1)), None),
        (lambda: aligned(FRAMES.transpose(0, 1).log_softmax(1).permute(1, 0, 2)), Squashed("axis")),
        (lambda: aligned(LAYER(FRAMES.transpose(0, 1)).transpose(0, 1)), Squashed("raw")),
        (lambda: F.nll_loss(X.T.log_softmax(1).T, Y), Squashed("axis")),
        (lambda: F.nll_loss(X.T.log_softmax(0).T, Y), None),
        (lambda: F.nll_loss(X.log_softmax(0)[Y.argsort()], Y), Squashed("axis")),
        (lambda: F.nll_loss(X.log_softmax(0)[1:], Y[1:]), Squashed("axis")),
        (lambda: F.nll_loss(X.log_softmax(1)[Y.argsort()], Y), None),
    ],
    ids=[
        *("letters", "frames", "letters before", "frames before", "logits"),
        *("samples turned round", "classes turned round"),
        *("some samples", "a slice of samples", "classes of some samples"),
    ],
)
def test_the_axis_of_classes_is_followed_through_transpositions(loss, name):
    assert squashed_by(loss()) == name


@pytest.mark.parametrize("squash", [torch.sigmoid, lambda x: x.softmax(-1)])
def test_a_function_that_is_given_its_own_values_is_told_whatever_the_loss(squash):
    name = squashed_by(1 - (squash(squash(X)) * Y_OF_BOTH).sum() / 9)
    assert name is not None
    assert name.how == "twice"
    assert squashed_by(1 - (squash(X) * Y_OF_BOTH).sum() / 9) is None
    assert squashed_by((squash(W @ squash(X).T) - 1).square().mean()) is None


def squared(x):
    return x * x


def divergence(given, **options):
    return F.kl_div(given, X.detach().softmax(1), **options)


@pytest.mark.parametrize(
    ("loss", "is_odd"),
    [
        (lambda: divergence(X.softmax(1), reduction="batchmean"), True),
        (lambda: 0.1 * divergence(X @ torch.eye(5), reduction="sum"), True),
        (lambda: divergence(X.softmax(1), reduction="sum") + X.square().mean(), True),
        (lambda: X.square().mean() + 16 * divergence(X.softmax(1), reduction="sum"), True),
        (lambda: divergence(X.log_softmax(1), reduction="sum") + X.square().mean(), False),
        (lambda: divergence(X.log_softmax(1), reduction="batchmean"), False),
        (lambda: divergence(X.softmax(1).log(), reduction="batchmean"), False),
        (lambda: (X.detach() - 2 * X.softmax(1)).square().sum(), False),
        (lambda: (torch.ones(4, 5) - X.detach() * (X @ torch.eye(5))).relu().mean(), False),
        (lambda: (X.detach() - X.softmax(1)).sum(), False),
        (lambda: squared(X.detach() - 2 * X.softmax(1)).mean() + X.square().mean(), False),
    ],
    ids=[
        *("softmax", "logits", "a term", "a second term", "a right term"),
        *("log_softmax", "log", "squares", "hinge", "difference", "squares by a product"),
    ],
)
def test_a_divergence_of_what_is_no_logarithm_is_told(loss, is_odd):
    assert squashed_by(loss()) == (Squashed("divergence") if is_odd else None)


def test_a_last_layer_that_is_given_shares_is_named():
    layers = nn.Sequential(nn.Linear(5, 5), nn.Softmax(1), nn.Linear(5, 4))
    model = taiyi_fx.instrument(layers, {"0": ["OutputRMS"]})
    for step in range(3):
        loss = F.cross_entropy(model(X.detach()), Y)
        loss.backward()
        model.monitor.log("loss", loss)
        model.monitor.track(step)
    (found,) = model.monitor.findings
    assert (found.kind, found.module) == ("squashed_loss", "2")
    assert "shares that add up to 1" in found.text


def test_a_sigmoid_behind_a_sigmoid_is_a_finding():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(5, 5), nn.Sigmoid()), {"0": ["OutputRMS"]})
    loss = F.mse_loss(model(X.detach()).sigmoid(), Y_OF_BOTH)
    loss.backward()
    model.monitor.log("loss", loss)
    model.monitor.track(0)
    (found,) = model.monitor.findings
    assert (found.kind, found.severity) == ("squashed_loss", "warning")
    assert "a sigmoid is given what a sigmoid returns" in found.text
    assert "Leave one of the two out" in found.advice


@pytest.mark.parametrize(
    ("loss", "is_one"),
    [
        (lambda: divergence(X.log_softmax(1), reduction="batchmean"), True),
        (lambda: 0.5 * torch.stack([divergence(X.log_softmax(1), reduction="sum")]).mean(), True),
        (lambda: divergence(X.log_softmax(1), reduction="sum") + X.square().mean(), False),
        (lambda: divergence(X.softmax(1), reduction="sum"), False),
        (lambda: F.cross_entropy(X, Y), False),
        (lambda: 3.0, False),
    ],
    ids=["divergence", "multiple", "a term", "no logarithm", "cross entropy", "number"],
)
def test_a_divergence_with_no_other_term_is_known(loss, is_one):
    assert is_divergence(loss()) is is_one
