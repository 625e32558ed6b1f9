"""Where records go: files, dashboards, figures. Each writer imports what it needs when opened."""

from taiyi_fx.writers.protocol import Batch, EpochEnd, Event, RunInfo, SeriesInfo, Writer

__all__ = ["Batch", "EpochEnd", "Event", "RunInfo", "SeriesInfo", "Writer"]
