"""The help of each subcommand."""

import re
import shlex

import pytest

from taiyi_fx.cli import main
from taiyi_fx.cli.parser import parser
from tests.cli.subcommands import COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_has_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
    examples = [
        shlex.split(re.split(r" > | \|\| ", line)[0], comments=True)[1:]
        for line in lines
        if line.strip()
    ]
    assert examples
    assert all(parser().parse_args(example).run for example in examples)
    assert {example[0] for example in examples} == {command}
