"""A model and a configuration of a command line, made into an instrumented model."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from typing import TYPE_CHECKING

from taiyi_fx.cli.cfg_files import read_cfg
from taiyi_fx.cli.models import load_model
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

if TYPE_CHECKING:
    from taiyi_fx import InstrumentedModule


def instrumented(given: Namespace) -> InstrumentedModule | None:
    """The instrumented model; None if the configuration is wrong, after printing its errors.

    Raises:
        Refused: There is no such model or configuration, or the model cannot be instrumented.
    """
    from taiyi_fx import ConfigError, instrument

    file = read_cfg(given.cfg)
    model = load_model(given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = instrument(model, file.cfg)
        except ConfigError as error:
            say("\n".join(map(file.located, error.problems)), sys.stderr)
            return None
        except TypeError as error:
            raise Refused(f"{given.model}: {error}") from error
    for warning in caught:
        say(f"warning: {warning.message}", sys.stderr)
    return made
