"""Targets of values that go on behind the end of an episode."""

import pytest

from taiyi_fx.findings.facts.source.endless import endless_targets
from tests.findings.facts.source.reading import found_in

CODE = """
for s, a, r, s2, done in memory:
    {before}
    target = {target}
    {after}
    loss = f(net(s).gather(1, a), target)
    loss.backward()
"""
BEST = "r + gamma * net(s2).max(1).values"


def lines(target=BEST, before="pass", after="pass"):
    code = CODE.format(target=target, before=before, after=after)
    return [line for line, _ in found_in(code, endless_targets)]


@pytest.mark.parametrize(
    "target",
    [
        BEST,
        "r.float() + self.gamma * self.target(s2).max(1)[0].detach()",
        "args.gamma * torch.max(net(s2), 1)[0] + r",
        "r + GAMMA * net(s2).max(1).values",
        "r + GAMMA * target(s2).gather(1, net(s2).argmax(1, True))[:, 0]",
    ],
)
def test_the_best_of_what_comes_next_as_it_is_is_found(target):
    assert lines(target) == [4]


def test_also_by_a_name():
    before = "best = net(s2).max(1).values"
    assert lines("r + gamma * best", before) == [4]
    assert lines("r + gamma * best", f"{before}; best[done] = 0") == []
    assert lines("r + gamma * best", f"{before}; best *= 1 - done") == []
    assert lines("r + gamma * best", f"{before}; best = best * not_done") == []
    assert lines("r + gamma * best", "best = torch.zeros(9)") == []


@pytest.mark.parametrize(
    "target",
    [
        "r + gamma * net(s2).max(1).values * (1 - done)",
        "r + gamma * (1 - done) * net(s2).max(1).values",
        "r + gamma * net(s2).max(1).values.masked_fill(done, 0)",
        "r + torch.where(done, 0, gamma * net(s2).max(1).values)",
        "r + gamma * returns",
        "r + gamma * target",
        "r + net(s2).max(1).values",
    ],
)
def test_what_tells_an_end_and_sums_of_rewards_are_none(target):
    assert lines(target) == []


def test_one_that_is_set_by_an_end_later_is_none():
    assert lines(after="target[done] = r[done]") == []
    assert lines(after="target = torch.where(done, r, target)") == []


def test_in_code_that_does_not_train_there_is_none():
    assert found_in(f"def value(r, s2):\n    q = {BEST}\n    return q", endless_targets) == []


ADVANTAGES = """
def collect(self):
    rewards, values, {names} = [], [], []
    for step in range(self.horizon):
        {stepped} = self.env.step(action)
        rewards.append(r), values.append(v)
    for t in reversed(range(self.horizon)):
        delta = {delta}
        run = delta + self.gamma * self.lam * run
"""
DELTA = "rewards[t] + self.gamma * values[t + 1] - values[t]"


@pytest.mark.parametrize(
    ("delta", "names", "stepped", "is_found"),
    [
        (DELTA, "actions", "_, r, _", True),
        ("self.gamma * v[t + 1] + r[t] - v[t]", "actions", "_, r, _", True),
        (DELTA, "dones", "_, r, _", False),
        (DELTA, "actions", "_, r, done", False),
        (DELTA.replace("values[t + 1]", "values[t + 1] * alive[t]"), "actions", "_, r, _", False),
        (DELTA.replace("t + 1", "t + 2"), "actions", "_, r, _", False),
        ("rewards[t] + self.gamma * run", "actions", "_, r, _", False),
    ],
)
def test_differences_in_time_without_a_word_of_ends_are_found(delta, names, stepped, is_found):
    code = ADVANTAGES.format(delta=delta, names=names, stepped=stepped)
    assert [text for _, text in found_in(code, endless_targets)] == [delta] * is_found
