"""The flight recorder: the last steps of every site, and the bad step run again."""

from taiyi_fx.recorder.recorder import Recorder
from taiyi_fx.recorder.replay.bad_step import load_bad_step
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.runs.recording import Recording

__all__ = ["Recorder", "Recording", "Replay", "load_bad_step"]
