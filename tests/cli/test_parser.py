"""The list of subcommands."""

import pytest

from taiyi_fx.cli import main
from tests.cli.subcommands import COMMANDS


def test_the_help_lists_all_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(f"\n    {command}" in told for command in COMMANDS)
