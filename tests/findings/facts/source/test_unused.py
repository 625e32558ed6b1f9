"""Parts of a batch that say what counts, and are not read."""

import pytest

from taiyi_fx.findings.facts.source.unused import unused_adaptations, unused_offsets, unused_parts
from tests.findings.facts.source.reading import found_in

LOOP = """
for {names} in batches:
    loss = f(model(x), y, {used})
    loss.backward()
"""
FUNCTION = """
def update(batch):
    s, a, r, new, done = batch
    target = r + gamma * q(new).max(1).values{used}
    loss = f(q(s).gather(1, a), target)
    loss.backward()
"""


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("(x, y, mask)", ["mask"]),
        ("i, (x, y, lengths)", ["lengths"]),
        ("x, y, attention_mask", ["attention_mask"]),
        ("x, y, dones_batch", ["dones_batch"]),
        ("x, y, importance_weights", ["importance_weights"]),
        ("x, y, _", []),
        ("x, y, name", []),
        ("x, y, masked", []),
        ("x, y", []),
    ],
)
def test_names_that_tell_what_counts_are_found_where_nothing_reads_them(names, found):
    assert [text for _, text in found_in(LOOP.format(names=names, used=0), unused_parts)] == found


def test_a_part_that_is_read_is_none():
    assert found_in(LOOP.format(names="x, y, mask", used="mask"), unused_parts) == []


def test_ends_of_episodes_that_a_target_leaves_out_are_found():
    assert found_in(FUNCTION.format(used=""), unused_parts) == [(3, "done")]
    assert found_in(FUNCTION.format(used=" * (1 - done)"), unused_parts) == []
    inner = FUNCTION.format(used=" * alive()") + "    def alive():\n        return 1 - done\n"
    assert found_in(inner, unused_parts) == []
    own = FUNCTION.format(used="") + "    def alive(done):\n        return 1 - done\n"
    assert found_in(own, unused_parts) == [(3, "done")]
    theirs = "global done\n" + FUNCTION.format(used="").replace("    s,", "    global done\n    s,")
    assert found_in(theirs, unused_parts) == []


def test_a_name_may_be_read_by_what_reads_any():
    assert found_in(LOOP.format(names="x, y, mask", used="**locals()"), unused_parts) == []


def test_code_that_does_not_train_may_leave_them():
    assert found_in("for x, mask in batches:\n    model(x)\n", unused_parts) == []


TARGET = """
for i in order:
    s, a, r, new, {end} = (part[i] for part in memory)
    y = r + {discount} * target(new).max(1).values{used}
    loss = f(q(s).gather(1, a), y)
    loss.backward()
"""


@pytest.mark.parametrize(
    ("end", "discount", "used", "found"),
    [
        ("d", "gamma", "", ["d"]),
        ("end", "self.gamma", "", ["end"]),
        ("d", "gamma", " * (1 - d)", []),
        ("_", "gamma", "", []),
        ("info", "gamma", "", []),
        ("d", "weight", "", []),
        ("d", "gamma", " * alive", []),
        ("act", "gamma", "", []),
    ],
)
def test_the_one_part_beside_a_reward_that_a_target_leaves_out_is_found(end, discount, used, found):
    code = TARGET.format(end=end, discount=discount, used=used)
    assert [text for _, text in found_in(code, unused_parts)] == found


OFFSETS = """
def collate(graphs):
    edges, offset = [], 0
    for x, e in graphs:
        edges.append({edge})
        offset += len(x)
    return torch.cat(edges, 1){more}
"""


def test_offsets_that_nothing_reads_are_found():
    assert found_in(OFFSETS.format(edge="e", more=""), unused_offsets) == [(6, "offset")]
    assert found_in(OFFSETS.format(edge="e + offset", more=""), unused_offsets) == []
    assert found_in(OFFSETS.format(edge="e", more=", offset"), unused_offsets) == []
    count = OFFSETS.format(edge="e", more="").replace("offset", "count")
    assert found_in(count, unused_offsets) == []


def test_a_sum_of_all_later_rewards_needs_no_more():
    code = "for x, r in steps[::-1]:\n    g = r + gamma * g\nloss(g).backward()\n"
    assert found_in(code, unused_parts) == []


def test_masks_of_a_split_are_no_parts_of_a_batch():
    code = "train_mask, val_mask, test_mask = masks\nloss = f(x[train_mask])\nloss.backward()\n"
    assert found_in(code, unused_parts) == []


TASKS = """
def train(net, tasks):
    for task in tasks:
        params = dict(net.named_parameters())
        {name} = adapt(net, params, task)
        loss = f(functional_call(net, {used}, (x,)), y)
        loss.backward()
"""


@pytest.mark.parametrize(
    ("name", "used", "is_found"),
    [
        ("fast", "params", True),
        ("adapted_params", "params", True),
        ("fast", "fast", False),
        ("other", "params", False),
        ("breakfast", "params", False),
    ],
)
def test_weights_that_are_adapted_to_a_task_and_not_used_are_found(name, used, is_found):
    found = found_in(TASKS.format(name=name, used=used), unused_adaptations)
    assert found == [(5, "adapt(net, params, task)")] * is_found
