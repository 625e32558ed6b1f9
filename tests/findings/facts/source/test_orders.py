"""Rows in another order than those that belong to them."""

import pytest

from taiyi_fx.findings.facts.source.orders import (
    leaked_targets,
    parted_pairs,
    rewards_in_reversed_order,
)
from tests.findings.facts.source.reading import found_in

RETURNS = """
def returns(rewards):
    total, out = 0.0, []
    for r in {over}:
        total = r + 0.99 * total
        {append}
    return {result}
"""
APPEND = "out.append(total)"
EPOCH = """
order = torch.randperm(n)
{before}
for i in range(0, n, 32):
    xb, yb = {rows}
    loss = f(model(xb), yb)
    loss.backward()
"""


@pytest.mark.parametrize("over", ["reversed(rewards)", "rewards[::-1]"])
def test_sums_from_the_last_reward_on_that_stay_so_are_found(over):
    code = RETURNS.format(over=over, append=APPEND, result="torch.tensor(out)")
    assert found_in(code, rewards_in_reversed_order) == [(6, APPEND)]


@pytest.mark.parametrize(
    ("over", "append", "result"),
    [
        ("reversed(rewards)", APPEND, "torch.tensor(out[::-1])"),
        ("reversed(rewards)", APPEND, "torch.tensor(out).flip(0)"),
        ("reversed(rewards)", APPEND, "list(reversed(out))"),
        ("reversed(rewards)", "out.insert(0, total)", "out"),
        ("reversed(rewards)", "out.append(r)", "out"),
        ("rewards", APPEND, "out"),
        ("reversed(range(len(rewards)))", APPEND, "out"),
    ],
)
def test_sums_in_their_order_are_none(over, append, result):
    code = RETURNS.format(over=over, append=append, result=result)
    assert found_in(code, rewards_in_reversed_order) == []


@pytest.mark.parametrize(
    ("rows", "before", "found"),
    [
        ("x[order[i : i + 32]], y[i : i + 32]", "pass", ["y[i:i + 32]"]),
        ("x[i : i + 32], y[order[i : i + 32]]", "pass", ["x[i:i + 32]"]),
        ("x[order[i : i + 32]], y[order[i : i + 32]]", "pass", []),
        ("x[order[i : i + 32]], y[i : i + 32]", "y = y[order]", []),
        ("x[i : i + 32], y[i : i + 32]", "pass", []),
        ("x[order[i : i + 32]], y[i : i + 64]", "pass", []),
        ("x[order[i : i + 32]], held_x[i : i + 32]", "pass", []),
        ("x_a[order[i : i + 32]], y_b[i : i + 32]", "pass", []),
        (
            "x[order[i : i + 32]], cached[i : i + 32]",
            "cached = teacher(x)",
            ["cached[i:i + 32]"],
        ),
        ("x[order[i : i + 32]], cached[i : i + 32]", "cached = teacher(x[order])", []),
        ("x[i : i + 32], cached[i : i + 32]", "cached = teacher(x)", []),
        ("train_x[order[i : i + 32]], train_y[i : i + 32]", "pass", ["train_y[i:i + 32]"]),
        (
            "x[torch.randint(n, (32,))], y[torch.randint(n, (32,))]",
            "pass",
            ["y[torch.randint(n, (32,))]"],
        ),
        ("x[torch.randint(n, (32,))], z[torch.randint(n, (32,))]", "pass", []),
        ("x, y", "x, y = x[torch.randperm(n)], y[torch.randperm(n)]", ["y[torch.randperm(n)]"]),
        (
            "x, y",
            "np.random.shuffle(x_train), np.random.shuffle(y_train)",
            ["np.random.shuffle(y_train)"],
        ),
        ("x, y", "np.random.shuffle(x_train), np.random.shuffle(x_test)", []),
        ("x, y", "np.random.shuffle(x_train), np.random.shuffle(y_test)", []),
    ],
)
def test_inputs_and_targets_in_orders_of_their_own_are_found(rows, before, found):
    code = EPOCH.format(rows=rows, before=before)
    assert [text for _, text in found_in(code, parted_pairs)] == found


def test_an_order_may_have_a_name_in_each_turn():
    before = "cached = teacher(x)"
    rows = "x[order[i : i + 32]], cached[i : i + 32]"
    code = EPOCH.format(rows=rows, before=before).replace(
        "    xb, yb = x[order[i : i + 32]]", "    at = order[i : i + 32]\n    xb, yb = x[at]"
    )
    assert [text for _, text in found_in(code, parted_pairs)] == ["cached[i:i + 32]"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x[p], y[q]", ["y[q]"]),
        ("x[p], y[p]", []),
        ("a * x + (1 - a) * x[p], y, y[q]", ["y[q]"]),
        (
            "a * x + (1 - a) * x[p], a * y + (1 - a) * y[torch.randperm(n)]",
            ["y[torch.randperm(n)]"],
        ),
        ("a * x + (1 - a) * x[p], a * y + (1 - a) * y[p]", []),
        ("a * x + (1 - a) * x[p], a * z + (1 - a) * z[q]", []),
        ("a * x + (1 - a) * x[r], y[q]", []),
    ],
)
@pytest.mark.parametrize("trains", [True, False])
def test_what_is_mixed_with_others_that_are_drawn_for_each_is_found(code, found, trains):
    text = f"""
def mixed(x, y, a, n, r):
    p = torch.randperm(n)
    q = torch.randperm(n)
    {"loss.backward()" if trains else "pass"}
    return {code}
"""
    is_found = trains or "a * x" in code
    assert [told for _, told in found_in(text, parted_pairs)] == (found if is_found else [])


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("xs.append(s[i : i + n])\nys.append(s[i + n - 1])", True),
        (
            "x = torch.stack([s[i : i + n] for i in at])\ny = torch.stack([s[i + n - 1] for i in at])",
            True,
        ),
        ("xs.append(s[i : i + n])\nys.append(s[i + n])", False),
        ("xs.append(s[i : i + n])\nys.append(t[i + n - 1])", False),
        ("xs.append(s[i : i + n])\nlast.append(s[i + n - 1])", False),
        ("xs.append(s[i : i + n])\nys.append(s[i + n + 1])", False),
        ("xs.append(s[i : i + n])\nys.append(s[i + n] - s[i + n - 1])", False),
        ("xs.append(s[i : i + n])\nys.append(float(s[i + n - 1]))", True),
    ],
)
def test_a_target_within_the_window_is_found(code, is_found):
    assert bool(found_in(code, leaked_targets)) == is_found
