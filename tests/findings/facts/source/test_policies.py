"""Losses of policies and preferences that are the other way round."""

import pytest

from taiyi_fx.findings.facts.source.policies import (
    actions_drawn_again,
    turned_ends,
    turned_entropies,
    turned_policies,
    turned_preferences,
    turned_ratios,
)
from tests.findings.facts.source.reading import found_in


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("ratio = torch.exp(old_logp - logp)", True),
        ("ratio = (batch.logp_old - new_logp).exp()", True),
        ("ratio = torch.exp(logp - old_logp)", False),
        ("ratio = torch.exp(old_logp - sampling_logp)", False),
        ("kl = torch.exp(old_logp - logp)", False),
        ("ratio = torch.exp(a - b)", False),
        ("ratio = threshold - logp", False),
    ],
)
def test_a_ratio_of_the_old_policy_to_the_new_is_found(code, is_found):
    assert bool(found_in(code, turned_ratios)) == is_found


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("loss = -F.logsigmoid(beta * (rejected - chosen)).mean()", True),
        ("loss = -F.logsigmoid(beta * ((logp_l - ref_l) - (logp_w - ref_w))).mean()", True),
        ("loss = -F.logsigmoid((logp_l - logp_w) - (ref_l - ref_w)).mean()", True),
        ("margin = r_rejected - r_chosen\nloss = -torch.log(torch.sigmoid(margin))", True),
        ("loss = -F.logsigmoid(beta * (chosen - rejected)).mean()", False),
        ("loss = -F.logsigmoid(-beta * (rejected - chosen)).mean()", False),
        ("loss = F.softplus(rejected - chosen)", False),
        ("loss = F.logsigmoid(rejected - chosen)", False),
        ("loss = -F.logsigmoid((logp_w - logp_l) - (ref_w - ref_l))", False),
        ("loss = -F.logsigmoid(a - b)", False),
    ],
)
def test_a_margin_of_the_rejected_is_found(code, is_found):
    assert bool(found_in(code, turned_preferences)) == is_found


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("a = d.sample()\nlogp = d.log_prob(d.sample())", True),
        ("a = d.sample()\nlogp = d.log_prob(a)", False),
        ("logp = d.log_prob(d.sample())", False),
        ("logp = d.log_prob(d.sample())\n(logp * r).mean().backward()", True),
        ("a = d.sample()\nlogp = e.log_prob(e.sample())", False),
        ("a = d.sample()\nlogp = d.log_prob(d.rsample())", False),
    ],
)
def test_the_probability_of_an_action_that_is_drawn_again_is_found(code, is_found):
    assert bool(found_in(code, actions_drawn_again)) == is_found


@pytest.mark.parametrize(
    ("loss", "is_found"),
    [
        ("policy_loss + 0.01 * entropy", True),
        ("policy_loss + d.entropy().mean() * coefficient", True),
        ("policy_loss + 0.01 * torch.mean(d.entropy())", True),
        ("policy_loss + 0.01 * bonus(d.entropy())", False),
        ("policy_loss - 0.01 * entropy", False),
        ("policy_loss + -0.01 * entropy", False),
        ("policy_loss - (value_loss - 0.01 * entropy)", True),
        ("policy_loss + 0.01 * entropy_loss", False),
        ("policy_loss", False),
    ],
)
def test_an_entropy_that_a_loss_adds_is_found(loss, is_found):
    code = f"entropy = d.entropy().mean()\nlogp = d.log_prob(a)\nloss = {loss}\nloss.backward()"
    assert bool(found_in(code, turned_entropies)) == is_found


def test_an_entropy_of_what_is_no_policy_may_be_minimized():
    code = "entropy = d.entropy().mean()\nloss = f(x) + entropy\nloss.backward()"
    assert found_in(code, turned_entropies) == []


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("loss = (log_probs * returns).mean()", True),
        ("loss = torch.mean(logp * adv)", True),
        ("loss = (dist.log_prob(a) * advantages).sum()", True),
        ("loss = -(log_probs * returns).mean()", False),
        ("loss = (-log_probs * returns).mean()", False),
        ("loss = (log_probs * -returns).mean()", False),
        ("returns = -costs\nloss = (log_probs * returns).mean()", False),
        ("loss = (log_probs * weights).mean()", False),
        ("loss = mean(x)", False),
        ("loss = x.sum()", False),
        ("opt = Adam(p, maximize=True)\nloss = (log_probs * returns).mean()", False),
        ("returns: Tensor = -costs\nloss = (log_probs * returns).mean()", False),
        ("returns *= -1\nloss = (log_probs * returns).mean()", False),
        ("loss = (log_probs * (returns := -costs)).mean()", False),
    ],
)
def test_a_loss_of_a_policy_without_a_minus_is_found(code, is_found):
    assert bool(found_in(f"{code}\nloss.backward()", turned_policies)) == is_found


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("y = r + gamma * done * v", True),
        ("y = r + self.gamma * dones.float() * q.max(1).values", True),
        ("y = r + GAMMA * v * batch.terminated[i]", True),
        ("y = r + gamma * (1 - done) * v", False),
        ("y = r + gamma * ~done * v", False),
        ("y = r + gamma * v", False),
        ("done: Tensor = 1 - d\ny = r + gamma * done * v", False),
        ("done = torch.logical_not(d)\ny = r + gamma * done * v", False),
        ("done = 1 - terminal\ny = r + gamma * done * v", False),
        ("y = r + gamma * not_done * v", False),
        ("y = done * v", False),
        ("memory.append((s, a, r, float(done)))\ny = r + gamma * d[i] * v", True),
        ("memory.append((s, a, r, 1 - done))\ny = r + gamma * d[i] * v", False),
        ("memory.append((s, a, r, not done))\ny = r + gamma * d[i] * v", False),
        ("y = r + gamma * d * v", False),
    ],
)
def test_what_counts_where_an_episode_ends_alone_is_found(code, is_found):
    assert bool(found_in(code, turned_ends)) == is_found
