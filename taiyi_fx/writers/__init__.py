"""Where records go: files, dashboards, figures. Each writer imports what it needs when opened."""

from taiyi_fx.writers.parquet import Parquet
from taiyi_fx.writers.protocol import Batch, EpochEnd, Event, RunInfo, SeriesInfo, Writer
from taiyi_fx.writers.store import Store

__all__ = ["Batch", "EpochEnd", "Event", "Parquet", "RunInfo", "SeriesInfo", "Store", "Writer"]
