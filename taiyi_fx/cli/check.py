"""``taiyi-fx check``: a configuration checked on a model, with its probes and due steps."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taiyi_fx.cli.cfg_files import add_cfg
from taiyi_fx.cli.command import Commands, command, whole
from taiyi_fx.cli.instrumenting import instrumented
from taiyi_fx.cli.models import add_model
from taiyi_fx.cli.printing import headed, many, say, table
from taiyi_fx.cli.verifying import verified

if TYPE_CHECKING:
    from taiyi_fx import InstrumentedModule
    from taiyi_fx.config.subscriptions import Subscription
    from taiyi_fx.schedule import Schedule

_EXAMPLES = """
taiyi-fx check models:net
taiyi-fx check models:net transformer
taiyi-fx check models:net probes.yaml
taiyi-fx check models:net probes.py --step-from 1000
taiyi-fx check models:huge probes.toml --device meta
taiyi-fx check models:net probes.yaml --run 8x3x32x32
taiyi-fx check models:net probes.yaml --run models:batch
"""
_SHOWN = 5
_HORIZON = 100_000


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "check", "check a configuration on a model", _run, _EXAMPLES)
    add_model(added)
    add_cfg(added)
    added.add_argument(
        "--step-from",
        metavar="STEP",
        type=whole,
        default=0,
        help="show the due steps from this one on (default: 0)",
    )
    added.add_argument(
        "--run",
        metavar="BATCH",
        dest="run_on",
        help="also run the model on a batch, plain and instrumented, and compare all bits: "
        "module:callable that returns a tensor, a tuple of arguments or a dictionary of them by "
        "name; or the shape of one tensor, such as 8x3x32x32",
    )


def _run(given: Namespace) -> int:
    made = instrumented(given)
    if made is None:
        return 1
    from taiyi_fx import capture_of, monitor_of

    subscriptions = monitor_of(made).subscriptions
    say(headed(_head(given, made)))
    say(f"captured    as {capture_of(made)}")
    schedules = Counter(schedule for s in subscriptions for schedule in s.schedules)
    rows = [
        (str(schedule), str(count), _due_steps(schedule, given.step_from))
        for schedule, count in schedules.items()
    ]
    say("\n" + table(("schedule", "quantities", "due at steps"), rows))
    if given.run_on is None:
        return 0
    made.monitor.close()  # the model is run as it is without
    found = verified(given)
    say(f"\n{found}")
    return 0 if found.ok else 1


def _head(given: Namespace, made: InstrumentedModule) -> dict[str, str]:
    from taiyi_fx import monitor_of
    from taiyi_fx.config.presets import fitting

    subscriptions = monitor_of(made).subscriptions
    modules = len({s.module for s in subscriptions})
    parameters = sum(p.numel() for p in made.parameters())
    preset = {} if given.cfg else {"preset": f"{fitting(made).name}, as no CFG is given"}
    return {
        "model": f"{given.model} ({type(made).__name__}), {many(parameters, 'parameter')}",
        **preset,
        "quantities": f"{len(subscriptions)} of {many(modules, 'module')}",
        "probes": _readings(subscriptions),
    }


def _readings(subscriptions: Sequence[Subscription]) -> str:
    from taiyi_fx.passes.ir import CALL_PORTS

    readings = {(s.module, reading) for s in subscriptions for reading in s.readings.values()}
    at_calls = sum(reading.site.port in CALL_PORTS for _, reading in readings)
    return f"{at_calls} at calls; {len(readings) - at_calls} of parameters and buffers, at track"


def _due_steps(schedule: Schedule, start: int) -> str:
    steps = filter(schedule.is_due, range(start, start + _HORIZON))
    found = list(itertools.islice(steps, _SHOWN + 1))
    if not found:
        return f"none from {start} on, for {_HORIZON:,} steps" if start else "none"
    return ", ".join(map(str, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
