"""``on_finding``: what the user asks to be done when something is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from taiyi_fx.findings import Finding
from taiyi_fx.findings.finding import SEVERITIES, Severity
from taiyi_fx.suggestion import suggestion
from taiyi_fx.watch.webhook import Webhook, is_url

Call = Callable[[Finding], object]
Word = Literal["stop", "raise_cadence", "skip"]
WORDS: tuple[Word, ...] = ("stop", "raise_cadence", "skip")

OnFinding: TypeAlias = "Call | str | Sequence[Call | str] | None"
"""A function of the finding, ``"stop"``, ``"raise_cadence"``, ``"skip"``, a URL, or several."""


@dataclass(frozen=True)
class WatchOptions:
    """The user's wishes of the watch.

    Attributes:
        on_finding: What to do with a new finding.
        severity: The lowest severity of findings that are acted upon.

    Raises:
        TypeError: What to do is no such thing.
        ValueError: A text is no action and no address; or there is no such severity.
    """

    on_finding: OnFinding = None
    severity: Severity = "alert"

    def __post_init__(self) -> None:
        actions(self.on_finding)
        check_severity(self.severity)


@dataclass(frozen=True)
class Actions:
    """The actions at each finding.

    Attributes:
        calls: Functions, which are called with it.
        words: Of ``"stop"``, ``"raise_cadence"`` and ``"skip"`` those that were asked for.
        webhooks: The addresses that it is sent to.
    """

    calls: tuple[Call, ...] = ()
    words: frozenset[Word] = frozenset()
    webhooks: tuple[Webhook, ...] = ()


def actions(asked: OnFinding) -> Actions:
    """The actions that a user asks for.

    Raises:
        TypeError: One is neither a function nor a text.
        ValueError: A text is no action, and no address of http or https.
    """
    each = () if asked is None else (asked,) if _is_one(asked) else tuple(cast(Any, asked))
    for one in each:
        _check(one)
    texts = [one for one in each if isinstance(one, str)]
    return Actions(
        tuple(cast(Call, one) for one in each if not isinstance(one, str)),
        frozenset(cast(Word, text) for text in texts if text in WORDS),
        tuple(Webhook(text) for text in dict.fromkeys(texts) if text not in WORDS),
    )


def check_severity(severity: Severity) -> None:
    """Checks a severity.

    Raises:
        ValueError: There is no such severity.
    """
    if severity not in SEVERITIES:
        known = [*SEVERITIES]
        raise ValueError(
            f"finding_severity: {severity!r} is no severity.{suggestion(str(severity), known)}"
        )


def _is_one(asked: object) -> bool:
    return isinstance(asked, str) or not isinstance(asked, Sequence)


def _check(one: object) -> None:
    if isinstance(one, str):
        if one not in WORDS and not is_url(one):
            hint = suggestion(one, WORDS)
            raise ValueError(
                f"on_finding: {one!r} is no action.{hint}; an address to send findings to begins "
                "with https:// or http://"
            )
    elif not callable(one):
        raise TypeError(
            f"on_finding takes a function of a finding, {', '.join(map(repr, WORDS))}, an address "
            f"or a list of these, not {one!r}"
        )


NOTHING = WatchOptions()
