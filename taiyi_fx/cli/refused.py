"""The error of a subcommand that cannot do what was asked."""


class Refused(Exception):
    """A request that cannot be met; the message says why, and what to do."""
