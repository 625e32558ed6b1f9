"""The flight recorder: the last steps of every site, and the bad step run again."""

from taiyi_fx.recorder.audit import Audit
from taiyi_fx.recorder.recorder import Recorder
from taiyi_fx.recorder.replay.bad_step import BadStep, load_bad_step
from taiyi_fx.recorder.replay.facts import TensorFacts
from taiyi_fx.recorder.replay.replayer import CannotReplay
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.runs.recording import Recording

__all__ = [
    "Audit",
    "BadStep",
    "CannotReplay",
    "Recorder",
    "Recording",
    "Replay",
    "TensorFacts",
    "load_bad_step",
]
