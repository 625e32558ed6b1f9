"""Gradients that are cleared before another player's backward."""

import pytest

from taiyi_fx.findings.facts.source.early_clearing import cleared_too_early
from tests.findings.facts.source.reading import found_in

CODE = """
opt_g = Adam(G.parameters())
opt_d = Adam(D.parameters())
watched = watch({watched})
for x in batches:
    {before}
    d_loss = f(watched(x), ones) + f(watched(G(z).detach()), zeros)
    d_loss.backward()
    opt_d.step()
    {behind}
    opt_g.zero_grad()
    g_loss = f({judge}(G(z)), ones)
    g_loss.backward()
    opt_g.step()
"""
CLEAR = "opt_d.zero_grad()"


def lines(*, before="pass", behind=CLEAR, judge="D", watched="D"):
    code = CODE.format(before=before, behind=behind, judge=judge, watched=watched)
    return [line for line, _ in found_in(code, cleared_too_early)]


def test_a_judge_that_is_cleared_behind_its_step_is_found():
    assert lines() == [10]
    assert lines(behind="D.zero_grad()") == [10]
    assert lines(judge="watched") == [10]


@pytest.mark.parametrize(
    "changed",
    [
        {"before": CLEAR},
        {"before": CLEAR, "behind": "pass"},
        {"behind": "pass"},
        {"judge": "other"},
        {"before": "D.requires_grad_(True)"},
        {"behind": f"if step % 2: {CLEAR}"},
        {"behind": "opt_d.zero_grad(set_to_none)"},
    ],
    ids=["twice", "before", "never", "another model", "switched", "a branch", "argument"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []


def test_a_single_optimizer_may_be_cleared_behind_its_step():
    code = (
        "opt = Adam(model.parameters())\nfor x in batches:\n    loss = f(model(x))\n"
        "    loss.backward()\n    opt.step()\n    opt.zero_grad()\n"
    )
    assert found_in(code, cleared_too_early) == []


def test_two_optimizers_of_one_loss_are_cleared_together():
    code = (
        "oe = Adam(E.parameters())\nod = Adam(D.parameters())\nfor x in batches:\n"
        "    oe.zero_grad()\n    od.zero_grad()\n    loss = f(D(E(x)), x)\n    loss.backward()\n"
        "    oe.step()\n    od.step()\n"
    )
    assert found_in(code, cleared_too_early) == []


def test_of_two_models_none_of_which_judges_the_other_both_losses_may_count():
    """As of an encoder and a decoder, which have one loss, and the decoder one of its own."""
    code = CODE.replace("D(", "decoder(").replace("opt_d = Adam(D", "opt_d = Adam(decoder")
    code = code.replace("D.param", "decoder.param").replace("{judge}(G", "decoder(G")
    code = code.format(before="pass", behind=CLEAR, watched="decoder", judge="decoder")
    assert found_in(code, cleared_too_early) == []


PLAYERS = """
opt_g = Adam(G.parameters())
opt_d = Adam(D.parameters())
watched = watch(G)
for x in batches:
    opt_g.zero_grad()
    opt_d.zero_grad()
    {made}
    d_loss = f(D(x), ones) + f(D({given}), zeros)
    d_loss.backward()
    opt_d.step()
    {again}
    g_loss = f(D(fake), ones)
    g_loss.backward()
    opt_g.step()
"""


@pytest.mark.parametrize(
    ("made", "given", "again", "is_found"),
    [
        ("fake = G(z)", "fake", "fake = G(z)", True),
        ("fake = watched(z)", "fake", "fake = watched(z)", True),
        ("fake = G(z)", "cat([fake, fake])", "fake = G(z)", True),
        ("fake = G(z)", "fake.detach()", "fake = G(z)", False),
        ("fake = G(z)", "cat([x, fake.detach()])", "pass", False),
        ("fake = G(z).detach()", "fake", "fake = G(z)", False),
        ("with no_grad(): fake = G(z)", "fake", "fake = G(z)", False),
    ],
)
def test_what_a_generator_makes_is_detached_in_its_judges_loss(made, given, again, is_found):
    code = PLAYERS.format(made=made, given=given, again=again)
    assert [line for line, _ in found_in(code, cleared_too_early)] == [6] * is_found
