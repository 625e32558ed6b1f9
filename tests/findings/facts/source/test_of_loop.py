"""Slips in the code that trains."""

import sys
import types

import pytest

from taiyi_fx.findings.facts.source import of_loop
from taiyi_fx.findings.facts.source.of_loop import slips_of_loop
from taiyi_fx.findings.facts.source.reach import MODULE
from taiyi_fx.findings.facts.source.running import code_of_loop

SCRIPT = """
for p in model.parameters():
    p.data.clamp(-0.01, 0.01)
    p.grad.mul(2)
    p.data.clamp_(-0.01, 0.01)
    x = p.data.clamp(0, 1)
    pool.sub()
    torch.clamp(p.data, 0, 1, out=p.data)
    p.grad.clamp(0, 1, out=p.grad)
"""
LOOP = """
def train(look):
    return look()
    g = torch.autograd.grad(f(x), x)[0]
    (loss + g.norm()).backward()
"""


def found():
    return slips_of_loop(code_of_loop())


def test_calls_of_a_script_that_leave_parameters_as_they_are_are_found(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(SCRIPT)
    script = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert found() == ()
    script.__file__ = str(tmp_path / "train.py")
    assert [(slip.code, slip.place, slip.kind) for slip in found()] == [
        ("p.data.clamp(-0.01, 0.01)", "train.py:3", "dropped_result"),
        ("p.grad.mul(2)", "train.py:4", "dropped_result"),
    ]
    (tmp_path / "no.py").write_text("for")
    script.__file__ = str(tmp_path / "no.py")
    assert found() == ()


def test_the_file_of_a_function_that_looks_is_read_unless_it_is_a_librarys(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))

    def of_loop(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LOOP)
        names = {}
        exec(compile(LOOP, str(path), "exec"), names)
        return [(slip.place, slip.kind) for slip in names["train"](found)]

    assert of_loop(tmp_path / "loops.py") == [("loops.py:4", "constant_penalty")]
    assert of_loop(tmp_path / "site-packages" / "theirs" / "loops.py") == []


def test_code_that_is_nested_too_deep_is_left_out(tmp_path):
    clips = "for x in y:\n  loss.backward()\n  opt.step()\n  clip_grad_norm_(p, 1)\n"
    deep, plain = tmp_path / "deep.py", tmp_path / "plain.py"
    deep.write_text(f"loss = {' + '.join(['x'] * 3000)}\nloss.backward()\n{clips}")
    plain.write_text(clips)
    found = slips_of_loop({str(deep): {MODULE}, str(plain): {MODULE}})
    assert [slip.place for slip in found] == ["plain.py:4"]


def test_gradients_that_are_clipped_behind_the_step_are_found(tmp_path):
    path = tmp_path / "loop.py"
    path.write_text("for x in y:\n  loss.backward()\n  opt.step()\n  clip_grad_norm_(p, 1)\n")
    (slip,) = slips_of_loop({str(path): {MODULE}})
    assert slip == ("clip_grad_norm_(p, 1)", "loop.py:4", "late_clipping")


def test_a_reader_that_fails_leaves_the_others(tmp_path, monkeypatch):
    def fail(tree):
        raise ValueError("no reading")

    path = tmp_path / "loop.py"
    path.write_text(
        "# once\nfor x in y:\n  loss.backward()\n  opt.step()\n  clip_grad_norm_(p, 1)\n"
    )
    monkeypatch.setitem(of_loop._READERS, "lost_term", (fail, "backward"))
    failed = []
    (slip,) = slips_of_loop({str(path): {MODULE}}, lambda *told: failed.append(told))
    assert slip.kind == "late_clipping"
    ((kind, error),) = failed
    assert (kind, str(error)) == ("lost_term", "no reading")
    with pytest.raises(ValueError, match="no reading"):
        slips_of_loop({str(path): {MODULE}})
