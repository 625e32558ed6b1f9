"""Gradients that are clipped when the optimizer's step is over."""

import ast
import textwrap

import pytest

from taiyi_fx.findings.facts.source.clipping import clips_behind_steps

CLIP = "clip_grad_norm_(model.parameters(), 1.0)"


def lines(code):
    tree = ast.parse(textwrap.dedent(code).replace("CLIP", f"torch.nn.utils.{CLIP}"))
    return [call.lineno for call in clips_behind_steps(tree)]


BEHIND = [
    """
    for x, y in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        CLIP
    """,
    """
    while True:
        CLIP
        optimizer.zero_grad()
        loss.backward()
        self.opt.step()
    """,
    """
    def train(batch):
        loss.backward()
        scaler.step(optimizer)
        if limit:
            CLIP
        scaler.update()
    """,
    """
    for epoch in range(9):
        for x in loader:
            with autocast():
                loss = f(x)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            accelerator.clip_grad_norm_(model.parameters(), 1)
        evaluate(model)
    """,
    """
    for x in loader:
        loss_d.backward()
        opt_d.step()
        CLIP
        loss_g.backward()
        CLIP
        opt_g.step()
    """,
]


@pytest.mark.parametrize(("i", "line"), [*enumerate([6, 3, 6, 9, 5])])
def test_a_clip_behind_the_step_is_found(i, line):
    assert lines(BEHIND[i]) == [line]


SOUND = [
    """
    for x in loader:
        loss.backward()
        optimizer.step()
        norm = clip_grad_norm_(model.parameters(), float("inf"))
    """,
    """
    def teach(model):
        loss_of(model).backward()

    for x in loader:
        loss.backward()
        opt_d.step()
        teach(generator)
        CLIP
        opt_g.step()
    """,
    """
    for x in loader:
        loss.backward()
        opt_d.step()
        self.generator_step(x)
        CLIP
    """,
    """
    for x in loader:
        loss.backward()
        CLIP
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    """,
    """
    for i, x in enumerate(loader):
        loss.backward()
        if i % 4 == 3:
            CLIP
            optimizer.step()
            optimizer.zero_grad()
    """,
    """
    for x in loader:
        for micro in x.chunk(4):
            f(micro).backward()
        CLIP
        optimizer.step()
    """,
    """
    for x in loader:
        loss.backward()
        if amp:
            scaler.unscale_(optimizer)
            CLIP
            scaler.step(optimizer)
        else:
            CLIP
            optimizer.step()
    """,
    """
    for x in loader:
        if i:
            optimizer.step()
        else:
            loss.backward()
        CLIP
    """,
    """
    def close(self):
        CLIP
        self.optimizer.step()

    for x in loader:
        loss.backward()
        close(self)
    """,
    """
    for x in loader:
        def closure():
            optimizer.zero_grad()
            loss.backward()
            CLIP
            return loss
        optimizer.step(closure)
    """,
    """
    for x in loader:
        try:
            loss.backward()
        except RuntimeError:
            optimizer.step()
        CLIP
    """,
    """
    for x in loader:
        try:
            loss.backward()
        finally:
            CLIP
        optimizer.step()
    """,
    """
    for x in loader:
        loss.backward()
        scheduler.step()
        optional.step(3)
        CLIP
    """,
]


@pytest.mark.parametrize("code", SOUND, ids=range(len(SOUND)))
def test_a_clip_before_the_step_is_none(code):
    assert lines(code) == []
