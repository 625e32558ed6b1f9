"""A report as a browser reads it: its header, its chunks, and columns of each series."""

import base64
import json
import re
import struct
import zlib
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np


class Elements(HTMLParser):
    """Elements that hold text as it is, and the policy."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found = []
        self.policy = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "style", "title"):
            self.found.append((tag, given, ""))
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]

    def handle_data(self, data):
        if self.lasttag in ("script", "style", "title") and self.cdata_elem in ("script", "style"):
            tag, given, text = self.found[-1]
            self.found[-1] = (tag, given, text + data)

    def texts(self, tag, kind=None):
        return [
            text for name, given, text in self.found if (name, given.get("type")) == (tag, kind)
        ]


@dataclass
class Decoded:
    header: dict
    chunks: dict  # id to arrays by name

    def series(self, run=0):
        """Columns of each series of numbers, by module, quantity and mode, of where it has any."""
        entry = self.header["runs"][run]
        return {
            (s["module"], s["quantity"], s["mode"]): columns(
                entry["chunks"][s["chunk"]],
                self.chunks[entry["chunks"][s["chunk"]]["id"]],
                s["row"],
            )
            for s in entry["series"]
            if entry["chunks"][s["chunk"]]["kind"] == "numbers"
        }

    def entries(self, run=0):
        return {
            (s["module"], s["quantity"], s["mode"]): s for s in self.header["runs"][run]["series"]
        }

    def vectors(self, module, quantity, run=0):
        """A series' vectors by step, and what their positions mean."""
        entry = self.header["runs"][run]
        (s,) = (s for s in entry["series"] if (s["module"], s["quantity"]) == (module, quantity))
        chunk = entry["chunks"][s["chunk"]]
        x = self.chunks[chunk["id"]]
        rows = zip(x["step"], x["length"], x["values"], strict=True)
        return {int(step): row[:length] for step, length, row in rows}, chunk["bins"]


def decoded(page):
    """The data of a page, from its file or its text."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    found = Elements(text)
    (head,) = found.texts("script", "application/json")
    header = json.loads(head, parse_constant=None)
    entries = {c["id"]: c for run in header["runs"] for c in run["chunks"]}
    chunks = {}
    for name, given, body in found.found:
        if name == "script" and given.get("type") == "application/octet-stream":
            number = int(re.fullmatch(r"taiyi-chunk-(\d+)", given["id"])[1])
            chunks[number] = arrays(entries[number], zlib.decompress(base64.b64decode(body)))
    return Decoded(header, chunks)


def arrays(entry, data):
    """A chunk's arrays by name; there is nothing after them."""
    found, at = {}, 0
    for one in entry["arrays"]:
        count = int(np.prod(one["shape"]))
        kind = np.dtype(one["dtype"])
        found[one["name"]] = np.frombuffer(data, kind, count, at).reshape(one["shape"])
        at += count * kind.itemsize
    assert at == len(data)
    return found


def unframed(body):
    """A live answer's entry and arrays."""
    (length,) = struct.unpack("<I", body[:4])
    entry = json.loads(body[4 : 4 + length])
    return entry, arrays(entry, body[4 + length :])


def columns(entry, x, row):
    """Cells with a number as ``(start, end): (mean, min, max, count, nan, inf)``; None for NaN."""
    shape = entry["rows"], entry["columns"]
    mean = x["mean"]
    assert mean.shape == shape
    assert (np.diff(x["start"]) > 0).all()
    assert (x["start"] <= x["end"]).all()
    assert (x["end"][:-1] < x["start"][1:]).all()
    low, high = (mean, mean) if entry["raw"] else (x["min"], x["max"])
    count = x.get("count", (~np.isnan(mean)).astype(int))
    nan, inf = (x.get(name, np.zeros(shape, int)) for name in ("nan", "inf"))
    assert ((count == 0) == np.isnan(mean)).all()
    names = zip(x["start"].astype(int).tolist(), x["end"].astype(int).tolist(), strict=True)
    ends = (np.where(np.isnan(a[row]), None, a[row].astype(object)) for a in (mean, low, high))
    counts = (a[row].astype(object) for a in (count, nan, inf))
    cells = zip(*(a.tolist() for a in (*ends, *counts)), strict=True)
    return {at: cell for at, cell in zip(names, cells, strict=True) if any(cell[3:])}
