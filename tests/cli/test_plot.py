"""`taiyi-fx plot`."""

import pytest

from tests.cli.conftest import recorded


def test_plot_draws_in_the_terminal(cli, run):
    code, out, _ = cli("plot", run)
    assert code == 0
    head, _, train, evaluation = out.splitlines()
    assert head == "module  quantity  mode   steps 0 ... 4  first  last"
    assert train == "a       q         train  █!!▁▄          3      2"
    assert evaluation == "a       q         eval       ▁          0.5    0.5"


def test_a_picture_needs_one_quantity_and_a_file(cli, tmp_path):
    run = recorded(tmp_path / "run", loss=1.0)
    code, _, err = cli("plot", run, "-o", tmp_path / "x.png")
    assert code == 2
    assert "a picture is of one quantity: choose by --quantity from 'WeightNorm'" in err
    assert "give -o FILE" in cli("plot", run, "--kind", "heatmap")[2]


@pytest.mark.parametrize("kind", ["curves", "heatmap", "bands", "spectra"])
def test_pictures_of_all_kinds_are_drawn(cli, run, tmp_path, kind):
    pytest.importorskip("taiyi_fx.writers.figures")
    chosen = ["--quantity", "t" if kind == "spectra" else "q", "--mode", "train"]
    picture = tmp_path / "picture.png"
    code, out, err = cli("plot", run, *chosen, "--kind", kind, "-o", picture)
    assert (code, out, err) == (0, f"{picture}\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, _, err = cli("plot", run, *chosen, "--kind", kind, "-o", tmp_path / "picture.what")
    assert code == 2
    assert "'what' is not supported" in err


def test_a_picture_of_what_is_not_there_is_told(cli, run, tmp_path):
    pytest.importorskip("taiyi_fx.writers.figures")
    code, _, err = cli("plot", run, "--quantity", "t", "-o", tmp_path / "x.png")
    assert code == 2
    assert "no numbers of 't'" in err
