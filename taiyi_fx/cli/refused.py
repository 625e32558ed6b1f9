"""How a subcommand says that it cannot do what was asked."""


class Refused(Exception):
    """What was asked cannot be done; the message says why, and what to do."""
