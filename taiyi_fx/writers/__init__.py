"""Writers of records: files, dashboards, figures. Each imports its packages when it is opened."""

from taiyi_fx.writers.csv_file import CSV
from taiyi_fx.writers.figure_files import Figures
from taiyi_fx.writers.figures import bands, curves, heatmap, spectra
from taiyi_fx.writers.image_files import Images
from taiyi_fx.writers.jsonl import JSONL
from taiyi_fx.writers.live import LiveTable
from taiyi_fx.writers.mlflow import MLflow
from taiyi_fx.writers.parquet import Parquet
from taiyi_fx.writers.protocol import Batch, EpochEnd, Event, RunInfo, SeriesInfo, Writer
from taiyi_fx.writers.store import Store
from taiyi_fx.writers.surface import surface
from taiyi_fx.writers.tensorboard import TensorBoard
from taiyi_fx.writers.trackio import Trackio
from taiyi_fx.writers.wandb import WandB

__all__ = [
    "CSV",
    "JSONL",
    "Batch",
    "EpochEnd",
    "Event",
    "Figures",
    "Images",
    "LiveTable",
    "MLflow",
    "Parquet",
    "RunInfo",
    "SeriesInfo",
    "Store",
    "TensorBoard",
    "Trackio",
    "WandB",
    "Writer",
    "bands",
    "curves",
    "heatmap",
    "spectra",
    "surface",
]
