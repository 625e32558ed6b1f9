"""The reason for which a check could not be made."""


class Untried(Exception):
    """A check that says nothing of this step, with the reason as its text."""
