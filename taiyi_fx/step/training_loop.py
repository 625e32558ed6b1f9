"""The faults of a training loop that leave values missing at every step, each told once."""

from __future__ import annotations

from torch import nn

from taiyi_fx.passes.ir import GRADIENT_PORTS
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.session import Session
from taiyi_fx.step.collect import TrackedStep
from taiyi_fx.step.parameters import CLEARED, has_gradients
from taiyi_fx.step.statistics import NOT_CALLED
from taiyi_fx.warning import WarnOnce

PLAIN_MODEL = (
    "the instrumented model was not called, though its parameters have gradients, so no values of "
    "its layers are read: call what `instrument` returned, instrumented(x), not the model that it "
    "was given. Where parts of it or other methods are called, do so in `with monitor.reading():`"
)
EVALUATED = (
    "the module was not called in a training forward, but in evaluation alone, which is read with "
    "instrument(..., record_eval=True); model.train() comes before training"
)
LATE = (
    "backward ran, but no parameter has a gradient when track is called, so numbers of parameters' "
    "gradients, such as GradNorm and WeightGradNorm, are missing: call track(step) after backward, "
    "before optimizer.step() and zero_grad(). (Gradients that backward itself uses up, as a fused "
    "optimizer does, cannot be read.)"
)
_FEW = 3
"""The steps in a row after which numbers that nobody named are told to be missing."""


class TrainingLoop:
    """Looks at steps whose values are missing, for what the training loop has to do instead.

    Args:
        session: The forwards.
        table: The statistics of the step that is tracked.
        model: The model.

    Attributes:
        remark: A text on what is missing since the beginning, once it was warned of, until it is
            there; else empty.
    """

    def __init__(self, session: Session, table: SlotTable, model: nn.Module) -> None:
        self.remark = ""
        self._session, self._table, self._model = session, table, model
        self._seen, self._count = "", 0
        self._warn = WarnOnce()

    def look_at(self, step: TrackedStep) -> None:
        """Gives missing values the reason that all of them have in common; warns of it once."""
        has_read = any(True for _ in self._table.read_slots())
        why = self._late(step) if has_read else self._unread(step)
        self._count = self._count + 1 if why == self._seen else 1
        self._seen = why
        is_named = why == PLAIN_MODEL and why in step.failures.values()
        if why == PLAIN_MODEL:  # of all alike: one warning says it
            step.reasons.update({s: t for s, t in step.failures.items() if t == why})
            step.failures = {s: t for s, t in step.failures.items() if t != why}
        self.remark = why if why and (is_named or self._count >= _FEW) else ""
        if self.remark:
            self._warn.of(why, why)

    def _unread(self, step: TrackedStep) -> str:
        """The reason where no training forward was read, put in the place of the general one."""
        if self._session.has_evaluated:
            why = EVALUATED
        elif not self._session.has_begun and has_gradients(self._model):
            why = PLAIN_MODEL
        else:
            return ""
        found = False
        for missing in (step.failures, step.reasons):
            general = [series for series, text in missing.items() if text == NOT_CALLED]
            missing.update(dict.fromkeys(general, why))
            found |= bool(general)
        return why if found and why == PLAIN_MODEL else ""

    def _late(self, step: TrackedStep) -> str:
        """The reason where gradients were there in backward, and are not any more."""
        texts = (*step.failures.values(), *step.reasons.values())
        is_cleared = any(text.endswith(CLEARED) for text in texts)
        slots = self._table.read_slots() if is_cleared else ()
        return LATE if any(slot.reading.site.port in GRADIENT_PORTS for slot in slots) else ""
