"""Where records go: files, dashboards, figures. Each writer imports what it needs when opened."""

from taiyi_fx.writers.csv_file import CSV
from taiyi_fx.writers.jsonl import JSONL
from taiyi_fx.writers.protocol import Batch, EpochEnd, Event, RunInfo, SeriesInfo, Writer
from taiyi_fx.writers.tensorboard import TensorBoard

__all__ = [
    "CSV",
    "JSONL",
    "Batch",
    "EpochEnd",
    "Event",
    "RunInfo",
    "SeriesInfo",
    "TensorBoard",
    "Writer",
]
