"""The names of all subcommands."""

from taiyi_fx.cli.parser import parser

COMMANDS = tuple(parser().commands)
