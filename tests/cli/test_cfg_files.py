"""Configurations in files, and the lines of what is wrong in them."""

import sys

import pytest

import taiyi_fx
from taiyi_fx.cli.cfg_files import read_cfg
from taiyi_fx.cli.refused import Refused

WRONG = {
    "yaml": "# first\nBlok: [OutputNorm]\n\n2:\n  - MeanTID\n  - [WeightNorm, sometimes]\n",
    "toml": '# first\nBlok = ["OutputNorm"]\n\n2 = ["MeanTID", ["WeightNorm", "sometimes"]]\n',
    "py": 'cfg = {\n    "Blok": ["OutputNorm"],\n\n    "2": ["MeanTID", ["WeightNorm", "sometimes"]],\n}\n',
}


@pytest.mark.parametrize("suffix", WRONG)
@pytest.mark.parametrize("command", ["check", "graph"])
def test_all_that_is_wrong_is_told_at_once_with_its_line(cli, models, write, suffix, command):
    file = write(f"wrong.{suffix}", WRONG[suffix])
    output = ["-o", "never.dot"] if command == "graph" else []
    code, out, err = cli(command, f"{models}:net", file, *output)
    assert (code, out) == (1, "")
    with pytest.raises(taiyi_fx.ConfigError) as error:
        taiyi_fx.instrument(sys.modules[models].net(), read_cfg(file).cfg)
    lines = [2, 4, 4]
    problems = sorted(error.value.problems, key=lambda problem: "Blok" not in problem)
    assert sorted(err.splitlines()) == sorted(
        f"{file}:{line}: {problem}" for line, problem in zip(lines, problems, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.json", "{}", "c.json: CFG ends in .py, .yaml, .yml or .toml, or is a preset's name"),
        ("c.yaml", "a: [b\nc: d", "c.yaml:2: expected ',' or ']', but got ':'"),
        ("c.yaml", "- a\n- b\n", "maps modules to lists of quantities, this is a list"),
        ("c.yaml", "a: \x1b", "special characters are not allowed"),
        ("c.yaml", "", "maps modules to lists of quantities, this is a NoneType"),
        ("c.yaml", "a: [x]\nb: [x]\na: [y]\n", "c.yaml:3: 'a' is in line 1 already"),
        ("c.yaml", "a: !!python/object/apply:os.system [id]\n", "c.yaml:1: could not determine"),
        (
            "c.yaml",
            "a: [x]\n? [a, b]\n: [x]\n",
            "c.yaml:2: a key is the name of modules, not a seq",
        ),
        ("c.yaml", "a: [2020-13-45]\n", "c.yaml: month must be in 1..12"),
        ("c.yaml", "a: [!!int abc]\n", "c.yaml: invalid literal for int()"),
        ("c.yaml", "a: " + "[" * 3000, "c.yaml: its brackets are nested too deeply"),
        ("c.toml", "a = [\n", "c.toml: "),
        ("c.toml", "a = ['x']\na = ['y']\n", "c.toml: Cannot overwrite a value"),
        ("c.toml", "layer.fc = ['x']", "'layer' is a table; put a name with dots in quotes"),
        ("c.py", "cfgs = {}", "c.py: it does not set `cfg`"),
        ("c.py", "cfg = {\n", "c.py:1: '{' was never closed"),
        ("c.py", "cfg = 3\n", "maps modules to lists of quantities, this is a int"),
        ("c.py", "\nraise OSError('ours')\n", "running c.py raised OSError: ours"),
    ],
)
def test_a_file_that_is_no_configuration_is_told(cli, models, write, name, text, told):
    code, out, err = cli("check", f"{models}:net", write(name, text))
    assert (code, out) == (2, "")
    assert told in err


def test_a_file_that_cannot_be_read_is_told(cli, models, tmp_path):
    assert "none.yaml: it cannot be read" in cli("check", f"{models}:net", "none.yaml")[2]
    (tmp_path / "latin.yaml").write_bytes(b"\xe9: [x]")
    assert "latin.yaml: it cannot be read" in cli("check", f"{models}:net", "latin.yaml")[2]


@pytest.mark.parametrize(("module", "extra"), [("yaml", "yaml"), ("tomllib", "toml")])
def test_a_missing_library_names_the_extra(cli, models, write, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "version_info", (3, 11))
    code, _, err = cli("check", f"{models}:net", write(f"c.{extra}", ""))
    assert code == 2
    assert err.endswith(f"pip install 'taiyi-fx[{extra}]'\n")


def test_lines_are_not_guessed_where_a_file_computes_its_keys(cli, models, write):
    cfg = write("c.py", 'cfg = {"Block": ["OutputNorm"]}\ncfg.update({"Blok": ["OutputNorm"]})\n')
    _, _, err = cli("check", f"{models}:net", cfg)
    assert err.startswith("c.py: cfg['Blok']: no module")


def bomb(levels, width=9):
    lines = ["a0: &a0 [" + ",".join("x" * width) + "]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines)


def kept(folder, name, text):
    (folder / name).write_text(text)
    return str(folder / name)


def test_aliases_that_come_to_far_more_than_is_written_are_refused(tmp_path):
    with pytest.raises(Refused, match=r"written out it has \d+ values; the limit is 100000"):
        read_cfg(kept(tmp_path, "bomb.yaml", bomb(9)))
    assert len(read_cfg(kept(tmp_path, "small.yaml", bomb(3))).cfg) == 3


def test_an_alias_of_itself_is_refused(tmp_path):
    with pytest.raises(Refused, match="nested deeper than 20, the limit"):
        read_cfg(kept(tmp_path, "self.yaml", "a: &a [*a]"))


def test_deep_nesting_and_large_files_are_refused(tmp_path):
    with pytest.raises(Refused, match="nested deeper than 20, the limit"):
        read_cfg(kept(tmp_path, "deep.yaml", "a: " + "[" * 30 + "]" * 30))
    with pytest.raises(Refused, match="a configuration has at most 1000000"):
        read_cfg(kept(tmp_path, "large.yaml", "a: [" + "x" * 1_000_000 + "]"))
