"""`taiyi-fx coord`: slopes over widths."""

import json

import pytest

GIVEN = ("--batch", "tests.coordinates.models:batch", "--widths", "32,64,128", "--steps", "3")


def test_the_verdict_is_said_and_is_the_exit_code(cli, tmp_path):
    code, out, _ = cli("coord", "tests.coordinates.models:maximal", *GIVEN)
    assert (code, out.partition(":")[2].split(":")[0].strip()) == (0, "flat")
    picture = tmp_path / "grown.png"
    code, out, _ = cli("coord", "tests.coordinates.models:standard", *GIVEN, "-o", picture)
    assert code == 1
    assert out.startswith("verdict: grows")
    assert picture.stat().st_size > 1000


def test_the_batch_beside_the_model_is_taken(cli):
    code, out, _ = cli("coord", "tests.coordinates.models:maximal", *GIVEN[2:])
    assert (code, out) == cli("coord", "tests.coordinates.models:maximal", *GIVEN)[:2]


def test_json_has_slopes_and_sizes(cli):
    code, out, _ = cli("coord", "tests.coordinates.models:standard", *GIVEN, "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["widths"]) == (1, "grows", [32, 64, 128])
    assert found["roles"]["last"]["change_slope"] > 0.3
    assert len(found["roles"]["last"]["sizes"]) == 3


def test_what_cannot_be_made_is_refused(cli):
    code, _, err = cli("coord", "tests.coordinates.models:nothing", *GIVEN)
    assert code == 2
    assert "tests.coordinates.models has no 'nothing'" in err
    code, _, err = cli("coord", "tests.coordinates.models:RATE", *GIVEN)
    assert code == 2
    assert "is a float, which takes no width" in err


@pytest.mark.parametrize("widths", ["64", "64,64", "a,b", "0,8"])
def test_two_widths_are_needed(cli, widths, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli("coord", "a:b", "--batch", "2x2", "--widths", widths)
    assert "is not two widths or more" in capsys.readouterr().err
