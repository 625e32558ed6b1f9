"""The names of all subcommands."""

COMMANDS = "quantities targets check graph show plot compare export doctor".split()
