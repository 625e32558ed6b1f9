"""``taiyi-fx coord``: how what a model computes, and what updates change, grow with its width."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taiyi_fx.cli.command import Commands, command, whole
from taiyi_fx.cli.models import failure_text, named
from taiyi_fx.cli.printing import as_json, say
from taiyi_fx.cli.refused import Refused
from taiyi_fx.cli.verifying import batch_of

if TYPE_CHECKING:
    from taiyi_fx import CoordinateCheck

_EXAMPLES = """
taiyi-fx coord models:make
taiyi-fx coord models:make --batch 32x64
taiyi-fx coord models:make --batch models:batch --widths 64,128,256,512 -o coordinates.png
taiyi-fx coord models:make --batch 32x64 --json || echo 'not a maximal update'
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    about = "train a model at several widths, and say what grows with the width"
    added = command(commands, "coord", about, _run, _EXAMPLES)
    added.add_argument(
        "make",
        metavar="MAKE",
        help="module:callable that takes a width to a model, or to a model and its optimizer "
        "(default optimizer: Adam at a rate of 0.001)",
    )
    added.add_argument(
        "--batch",
        metavar="BATCH",
        help="module:callable that returns a tensor, a tuple of arguments or a dictionary of them "
        "by name; or the shape of one tensor, such as 32x64 (default: `batch` beside MAKE)",
    )
    added.add_argument(
        "--widths",
        type=_widths,
        default=(64, 128, 256, 512),
        help="with commas between (default: 64,128,256,512)",
    )
    added.add_argument("--steps", type=whole, default=4, help="updates of each (default: 4)")
    added.add_argument("--seeds", type=whole, default=2, help="initialisations (default: 2)")
    added.add_argument("-o", "--output", metavar="FILE", help="a picture, such as coordinates.png")
    added.add_argument("--json", action="store_true", help="slopes and sizes as JSON")


def _widths(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts) or len({*parts}) < 2:
        raise ArgumentTypeError(f"{text!r} is not two widths or more, such as 64,128,256")
    return tuple(map(int, parts))


def _run(given: Namespace) -> int:
    found = _checked(given)
    if given.output is not None:
        try:
            found.figure().savefig(Path(given.output))
        except (OSError, ValueError, ImportError) as error:
            raise Refused(str(error)) from error
    say(as_json(_plain(found)) if given.json else str(found))
    return int(found.verdict != "flat")


def _checked(given: Namespace) -> CoordinateCheck:
    from taiyi_fx.coordinates import coordinate_check

    found = named(given.make, "MAKE is module:callable, such as models:make")
    if not callable(found):
        raise Refused(f"{given.make} is a {type(found).__name__}, which takes no width")
    make: Any = found
    args, kwargs = batch_of(given.batch or f"{given.make.partition(':')[0]}:batch")
    sizes = {"widths": given.widths, "steps": given.steps, "seeds": given.seeds}
    try:
        return coordinate_check(make, *args, **sizes, **kwargs)
    except Exception as error:  # the user's own code
        raise Refused(failure_text(f"training what {given.make} makes", error)) from error


def _plain(found: CoordinateCheck) -> dict[str, Any]:
    def numbers(of: Any) -> list[float | None]:
        return [value if math.isfinite(value) else None for value in of]

    slopes, changes = found.slopes, found.change_slopes
    roles = {
        role: dict(
            zip(("size_slope", "change_slope"), numbers([slopes[role], changes[role]]), strict=True)
        )
        | {"sizes": [*map(numbers, found.sizes[role].tolist())]}
        | {"changes": [*map(numbers, found.changes[role].tolist())]}
        for role in found.sizes
    }
    return {"verdict": found.verdict, "widths": [*found.widths], "roles": roles}
