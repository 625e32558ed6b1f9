"""`taiyi-fx graph`."""

import pytest

from tests.cli.configurations import YAML


def test_graph_draws_where_the_probes_stand(cli, models, write, tmp_path):
    cfg = write("c.yaml", YAML.replace("OutputMean", "OutputRMS"))
    code, out, _ = cli("graph", f"{models}:net", cfg, "-o", "probes.dot")
    assert code == 0
    assert out.startswith("probes.dot: diagram of ")
    text = (tmp_path / "probes.dot").read_text(encoding="utf-8")
    assert text.startswith("digraph")
    assert "MeanTID" in text


def test_graph_shows_as_much_as_is_asked_for(cli, models, write):
    cfg = write("c.yaml", YAML.replace("OutputMean", "OutputRMS"))

    def boxes(*options):
        code, out, _ = cli("graph", f"{models}:net", cfg, "-o", "probes.dot", *options)
        assert code == 0
        return int(out.split(" boxes")[0].rpartition(" ")[2])

    assert boxes("--depth", "0") < boxes("--depth", "full")
    assert boxes("--only-probed") < boxes()
    assert boxes("--direction", "LR") == boxes()
    code, _, err = cli("graph", f"{models}:net", cfg, "-o", "probes.dot", "--expand", "nothing")
    assert code == 2
    assert "no module 'nothing' to expand" in err


def test_graph_tells_what_no_depth_is(cli, models, capsys):
    with pytest.raises(SystemExit):
        cli("graph", f"{models}:net", "c.yaml", "-o", "probes.dot", "--depth", "deep")
    assert "'deep' is neither a number of levels nor auto nor full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "told"),
    [("probes.txt", "should end in .html"), ("no/such/folder.dot", "there is no folder")],
)
def test_graph_tells_where_it_cannot_write(cli, models, write, file, told):
    cfg = write("c.yaml", "Block: [OutputNorm]\n")
    code, _, err = cli("graph", f"{models}:net", cfg, "-o", file)
    assert code == 2
    assert told in err
