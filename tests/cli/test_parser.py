"""The list of subcommands."""

import pytest

from taiyi_fx.cli import main
from tests.cli.subcommands import COMMANDS


def test_the_help_lists_all_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(f"\n    {command}" in told for command in COMMANDS)


def test_alone_it_lists_all_commands_and_is_no_success(capsys):
    assert main([]) == 2
    told = capsys.readouterr().out
    assert all(f"\n    {command}" in told for command in COMMANDS)


def test_a_misspelt_command_is_told_with_the_one_that_was_meant(capsys):
    with pytest.raises(SystemExit) as end:
        main(["reprot", "runs/exp1"])
    assert end.value.code == 2
    assert "there is no command 'reprot'. Did you mean 'report'?" in capsys.readouterr().err


def test_findings_are_told_to_be_in_show(capsys):
    with pytest.raises(SystemExit):
        main(["findings", "runs/exp1"])
    assert "there is no command 'findings'. taiyi-fx show RUN has them" in capsys.readouterr().err
