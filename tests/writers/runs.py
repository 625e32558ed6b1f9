"""Runs to write and to read back."""

import json

import torch
from torch import nn

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Block
from taiyi_fx.writers import Batch, Parquet, Store
from taiyi_fx.writers.run_info import run_info
from tests.writers.given import OUTLINE

FORMATS = [Store, Parquet]


def info(start_step=0, rank=0, modules=(), part="", launch=""):
    root = nn.Sequential()
    modules = dict.fromkeys(("", *modules), root)
    return run_info(root, modules, [], start_step, rank, lambda: OUTLINE, part, launch)


def opened(kind, path, start_step=0, **options):
    writer = kind(path, **options)
    writer.open(info(start_step))
    return writer


def part_written(kind, path, batches, about, **options):
    """A part of a run, with these batches."""
    writer = kind(path, **options)
    writer.open(about)
    for batch in batches:
        writer.write(batch)
    writer.flush()
    writer.close()


def written(kind, path, batches, start_step=0, **options):
    """A run with these batches, each flushed."""
    writer = opened(kind, path, start_step, **options)
    for batch in batches:
        writer.write(batch)
        writer.flush()
    writer.close()
    return path


def as_version_2(folder):
    """A run in Parquet as it was before its head listed the parts."""
    file = folder / "run.json"
    head = json.loads(file.read_text())
    for key in ("parts", "next", "cut", "renumbering"):
        del head[key]
    file.write_text(json.dumps({**head, "version": 2}))
    return folder


def numbers(step, values, epoch=0, mode: Mode = "train", quantity="q", **rest):
    """A batch of a number each of modules a, b, c, ..., z, 26, 27, ..."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [*letters, *map(str, range(26, len(values)))][: len(values)]
    series = tuple((name, quantity) for name in names)
    return Batch(epoch, [Block(step, mode, series, values)], **rest)


def trained(model, steps, **logged):
    """A step of training for each number."""
    for step in steps:
        model(torch.randn(3, 4)).sum().backward()
        for name, value in logged.items():
            model.monitor.log(name, value)
        model.monitor.track(step)
    return model
