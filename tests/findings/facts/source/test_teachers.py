"""Teachers that are asked in training mode."""

import pytest

from taiyi_fx.findings.facts.source.teachers import teachers_in_training_mode
from tests.findings.facts.source.reading import found_in

CODE = """
class Net(nn.Module):
    def __init__(self):
        self.drop = nn.{layer}(0.5)

{name} = {made}
{begin}
for x, y in loader:
    with torch.no_grad():
        asked = {name}(x)
    loss = f(student(x), asked)
    loss.backward()
{end}
"""
GIVEN = {"layer": "Dropout", "name": "teacher", "made": "Net()", "end": "print(1)"}


def lines(begin="optimizer = torch.optim.Adam(teacher.parameters())", **changed):
    code = CODE.format(begin=begin, **{**GIVEN, **changed})
    return [line for line, _ in found_in(code, teachers_in_training_mode)]


def test_one_that_was_trained_or_loaded_and_is_never_put_into_evaluation_is_found():
    assert lines() == [10]
    assert lines("teacher.load_state_dict(torch.load(path))") == [10]
    assert lines("self.teacher_net.load_state_dict(saved)", name="self.teacher_net") == [10]
    assert lines(layer="BatchNorm1d", end="teacher.eval()") == [10]


@pytest.mark.parametrize(
    "changed",
    [
        {"begin": "opt = Adam(teacher.parameters()); teacher.eval()"},
        {"begin": "opt = Adam(teacher.parameters()); teacher.train(False)"},
        {"made": "Net().eval()"},
        {"begin": "opt = Adam(teacher.parameters()); freeze(teacher)"},
        {"begin": "teacher.load_state_dict(student.state_dict())"},
        {"begin": "for a, b in zip(teacher.parameters(), student.parameters()): a.lerp_(b, 0.1)"},
        {"begin": "opt = Adam(teacher.parameters())", "end": "for m in (teacher, a): m.eval()"},
        {"begin": "pass"},
        {"layer": "LayerNorm"},
        {"name": "critic", "begin": "opt = Adam(critic.parameters())"},
    ],
    ids="eval train made handed copied averaged several new plain other".split(),
)
def test_others_are_not(changed):
    assert lines(**changed) == []
