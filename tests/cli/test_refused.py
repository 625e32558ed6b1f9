"""What a subcommand refuses to do."""

import argparse

import pytest

from taiyi_fx.cli import entry
from taiyi_fx.cli.refused import Refused


def test_a_refusal_is_said_in_its_own_words_without_a_traceback(monkeypatch, cli):
    def refuse(given):
        raise Refused("no such thing: give another")

    refusing = argparse.ArgumentParser()
    refusing.set_defaults(run=refuse)
    monkeypatch.setattr(entry, "parser", lambda: refusing)
    assert cli() == (2, "", "taiyi-fx: error: no such thing: give another\n")


@pytest.mark.parametrize("kind", [OSError, ValueError, LookupError])
def test_a_refusal_is_not_caught_with_the_users_errors(kind):
    assert not issubclass(Refused, kind)
