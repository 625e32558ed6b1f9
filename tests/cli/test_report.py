"""`taiyi-fx report`."""

from tests.cli.conftest import recorded
from tests.cli.given_runs import parted
from tests.pictures.report.decoded import decoded
from tests.writers.runs import FORMATS


def test_a_page_is_written_beside_under_the_runs_name(cli, tmp_path, monkeypatch, shown):
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "runs" / "exp1", loss=1.0)
    code, out, err = cli("report", "runs/exp1")
    assert (code, err, shown) == (0, "", [])
    size = (tmp_path / "exp1.html").stat().st_size / 1e6
    assert out == f"exp1.html: {size:.1f} MB\n"
    page = decoded(tmp_path / "exp1.html")
    assert page.header["title"] == "exp1"
    assert ("", "loss", "train") in page.series()


def test_two_runs_are_written_and_shown(cli, tmp_path, shown):
    one, two = recorded(tmp_path / "one"), recorded(tmp_path / "two", range(7))
    file = tmp_path / "both.html"
    code, _, err = cli("report", one, "--compare", two, "-o", file, "--open")
    assert (code, err, shown) == (0, "", [file.as_uri()])
    page = decoded(file)
    assert len(page.series(0)["0", "WeightNorm", "train"]) == 4
    assert len(page.series(1)["0", "WeightNorm", "train"]) == 7


def test_groups_of_runs_are_shown_with_what_differs_more_than_seeds_do(cli, tmp_path):
    for name, of in (("old-0", 1.0), ("old-1", 1.0), ("new-0", 3.0)):
        parted(FORMATS[0], tmp_path / name, [[2.0, of]] * 6)
    file = tmp_path / "all.html"
    assert cli("report", tmp_path / "old-*", tmp_path / "new-*", "-o", file)[0] == 0
    page = decoded(file)
    assert [run["name"] for run in page.header["runs"]] == ["old-0", "old-1", "new-0"]
    first, *_ = page.header["differences"]
    assert (first["module"], first["place"]) == ("b", 2)


def test_a_page_that_is_there_is_replaced_only_by_force(cli, tmp_path):
    run, file = recorded(tmp_path / "run"), tmp_path / "page.html"
    file.write_text("mine")
    code, out, err = cli("report", run, "-o", file)
    assert (code, out) == (2, "")
    assert f"{file} is there already: --force replaces it" in err
    assert file.read_text() == "mine"
    assert cli("report", run, "-o", file, "--force")[0] == 0
    assert decoded(file).header["title"] == "run"


def test_a_page_that_cannot_be_written_is_told(cli, tmp_path):
    run = recorded(tmp_path / "run")
    code, _, err = cli("report", run, "-o", tmp_path / "none" / "page.html")
    assert code == 2
    assert "there is no folder" in err
    code, _, err = cli("report", run, "--compare", tmp_path / "none", "-o", tmp_path / "page.html")
    assert code == 2
    assert "there is no such folder" in err


def test_a_file_may_be_named_by_to(cli, tmp_path):
    recorded(tmp_path / "run")
    assert cli("report", tmp_path / "run", "--to", tmp_path / "x.html")[0] == 0
    assert (tmp_path / "x.html").exists()
