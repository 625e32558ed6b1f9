"""The entry point of ``taiyi-fx``: runs a subcommand, and returns its exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from taiyi_fx.cli.parser import parser
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

_INTERRUPTED = 128 + 2
_READER_IS_GONE = 128 + 13
_DEFECT = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        arguments: The arguments, by default those of the process.

    Returns:
        0 if all is well; 1 if what was looked at is wrong or differs; 2 if it could not be looked
        at; 70 after a defect of this program, whose traceback is printed; 130 after an
        interrupt, 141 where the reader of the output went away.

    Raises:
        SystemExit: The arguments are wrong (2), or help was asked for (0).
    """
    try:
        given = parser().parse_args(arguments)
        code = given.run(given)
        sys.stdout.flush()
    except Refused as refused:
        say(f"taiyi-fx: error: {refused}", sys.stderr)
        return 2
    except BrokenPipeError:
        _discard_output()
        return _READER_IS_GONE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception:  # noqa: BLE001 - its exit code would be 1, which says that runs differ
        say(traceback.format_exc(), sys.stderr)
        return _DEFECT
    return code


def _discard_output() -> None:
    # Python flushes once more as it ends, and would report the same error again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
