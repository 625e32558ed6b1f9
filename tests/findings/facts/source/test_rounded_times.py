"""Times that are rounded."""

import pytest

from taiyi_fx.findings.facts.source.rounded_times import rounded_times
from tests.findings.facts.source.reading import found_in

CODE = """
START = 1_704_067_200
stamps = np.sort(START + rng.integers(0, 3600, 6000)).astype(np.int64)
millis = 1_704_067_200_000 + ticks

def features(stamps):
    return {made}
"""


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("torch.tensor(stamps, dtype=torch.float32) % 86400", True),
        ("torch.from_numpy(stamps).to(torch.float32) - START", True),
        ("torch.from_numpy(stamps).float()", True),
        ("stamps.astype('float32')", True),
        ("np.float32(stamps)", True),
        ("torch.FloatTensor(millis)", True),
        ("torch.tensor(stamps, dtype=torch.float64)", False),
        ("(torch.from_numpy(stamps) - START).to(torch.float32)", False),
        ("torch.tensor(stamps % 86400, dtype=torch.float32)", False),
        ("float(START)", False),
        ("torch.tensor(others, dtype=torch.float32)", False),
    ],
)
def test_a_time_that_is_cast_before_anything_is_taken_off_it_is_found(made, is_found):
    assert bool(found_in(CODE.format(made=made), rounded_times)) == is_found


def test_a_function_is_given_a_time_under_another_name():
    code = "def f(t, a):\n    return t.float()\nstamps = 1_700_000_000 + ticks\nf({}, 3)\n"
    assert found_in(code.format("stamps"), rounded_times) == [(2, "t.float()")]
    assert found_in(code.format("stamps - stamps[0]"), rounded_times) == []


def test_other_large_numbers_are_no_times():
    code = "cost = -1e9\nbig = 2**31\nx = torch.tensor([cost, big], dtype=torch.float32)\n"
    code += "seed = 12345678\ny = torch.tensor(seed, dtype=torch.float32)\n"
    assert found_in(code, rounded_times) == []
