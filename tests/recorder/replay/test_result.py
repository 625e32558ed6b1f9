"""What a replay says."""

import json

from taiyi_fx.recorder.replay.facts import TensorFacts
from taiyi_fx.recorder.replay.result import REACHED, Replay

TAKEN = TensorFacts((2, 3), "float32", "cpu", 0, 0, -1.0, 2.0, 0.5)
GIVEN = TensorFacts((2, 3), "float32", "cpu", 6, 0, None, None, None)


def replay(**other):
    given = {"step": 3, "module": "head", "operation": "log", "file": "net.py", "line": 7}
    given |= {"phase": "forward", "inputs": (TAKEN,), "outputs": (GIVEN,), "is_exact": True}
    return Replay(**{**given, **other})


def test_it_says_where_and_what():
    assert str(replay(function="Net.forward", saved="runs/bad-step.safetensors")) == (
        "step 3, forward: log of module 'head'\n"
        "  at net.py:7 in Net.forward\n"
        "  took float32 2×3: -1 to 2\n"
        "  gave float32 2×3: 6 NaN\n"
        "  the step ran as it had before, bit for bit\n"
        "  kept in runs/bad-step.safetensors"
    )


def test_it_says_why_it_is_not_exact_and_what_came_from_outside():
    text = str(replay(is_exact=False, note="compiled code ran then", module=""))
    assert "log of the model itself" in text
    assert text.endswith("the step did not run as it had before: compiled code ran then")
    assert str(replay(note="its rank")).endswith("as it had before, bit for bit; its rank")
    given = replay(operation="argument 0 of the model", file="", inputs=())
    assert "argument 0 of the model was not finite as it came\n  was float32" in str(given)
    large = replay(operation="argument 0 of the model", file="", inputs=(), outputs=(TAKEN,))
    assert "argument 0 of the model was far larger than in the steps before\n" in str(large)
    assert str(replay(operation="", file="", inputs=())).startswith(
        "step 3: no operation went wrong"
    )
    reached = f"{REACHED} 0 of the model"
    text = str(replay(operation=reached, phase="backward", file="", inputs=()))
    assert text.startswith(f"step 3, backward: {reached} was not finite as it came\n")
    assert "the loss made it, or what else follows the model" in text
    text = str(replay(operation="head.weight", file="", inputs=()))
    assert "head.weight was not finite as it came\n" in text
    assert "\n  what ran since the step before made it" in text


def test_it_is_the_same_from_plain_values():
    one = replay(stack=("a.py:1 in f", "net.py:7 in g"), outputs=(TAKEN,))
    assert Replay.of_dict(json.loads(json.dumps(one.as_dict()))) == one
