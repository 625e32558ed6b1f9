"""Entries: the quantities, schedules and edits that a user lists for a key, as requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from taiyi_fx.config.edits import Edit
from taiyi_fx.config.match import is_function
from taiyi_fx.passes.capture.captured import function_name
from taiyi_fx.quantities.declare import Quantity, Request, find_quantity, quantity_names
from taiyi_fx.schedule import FORMS, Linear, Schedule, parse_schedule
from taiyi_fx.suggestion import suggestion


def requests(path: str, entries: Any, problems: list[str]) -> Iterator[tuple[str, Request | Edit]]:
    """The requests of a key's entries, each with its path; adds errors to the problems.

    Args:
        path: The key's place in the configuration.
        entries: A list, or a single entry.
        problems: Gets a text for each wrong entry.
    """
    if isinstance(entries, (str, Quantity, Request, Edit)):
        entries = [entries]
    if not isinstance(entries, (list, tuple)):
        problems.append(f"{path}: a list of quantities belongs here, not {entries!r}")
        return
    for i, entry in enumerate(entries):
        try:
            yield f"{path}[{i}]", _request(entry)
        except ValueError as error:
            problems.append(f"{path}[{i}]: {error}")


def _request(entry: Any) -> Request | Edit:
    if isinstance(entry, Edit):
        return entry
    if isinstance(entry, Request):
        entry.quantity.check_options(entry.options)
        return entry
    parts = [entry] if isinstance(entry, (str, Quantity)) else entry
    if not isinstance(parts, (list, tuple)) or not 1 <= len(parts) <= 3:
        raise ValueError(
            f"{entry!r} is not an entry; an entry is a name, [name, schedule] or "
            "[name, schedule, options]"
        )
    if len(parts) == 2 and isinstance(parts[1], Mapping):
        raise ValueError(
            f'options come third, after a schedule: [..., "every(1)", {parts[1]!r}] is every step'
        )
    name, schedule, options = [*parts, *(Linear(0, 0), {})[len(parts) - 1 :]]
    quantity = _quantity(name)
    if not isinstance(options, Mapping):
        raise ValueError(f"options are a dictionary of names and values, not {options!r}")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    quantity.check_options(options)
    return Request(quantity, _schedule(schedule), options)


def _quantity(name: Any) -> Quantity:
    if isinstance(name, Quantity):
        return name
    if isinstance(name, Edit):
        raise ValueError("an edit is an entry of its own: it takes no schedule and no options")
    if not isinstance(name, str):
        raise ValueError(f"a quantity's name or a quantity belongs first, not {name!r}")
    found = find_quantity(name)
    if found is None:
        raise ValueError(f"no quantity is named {name!r}.{_quantity_hint(name)}")
    return found


def _quantity_hint(name: str) -> str:
    try:
        parse_schedule(name)
    except ValueError:
        return suggestion(name, quantity_names())
    return f' It is a schedule: give it with its quantity, as ["WeightNorm", "{name}"]'


def _schedule(schedule: Any) -> Schedule:
    if isinstance(schedule, str):
        return parse_schedule(schedule)
    if isinstance(schedule, Schedule):
        return schedule
    raise ValueError(f"{schedule!r} is not a schedule; allowed are {FORMS}, or such an object")


def place(key: Any, cfg: str = "cfg") -> str:
    """The place of a key in a configuration, for errors: ``cfg['fc']``."""
    if is_function(key):
        return f"{cfg}[{function_name(key)}]"
    return f"{cfg}[{key.__name__ if isinstance(key, type) else repr(key)}]"
