"""The error of a subcommand that cannot run as requested."""


class Refused(Exception):
    """A request that cannot be met; the message says why, and what to do."""
