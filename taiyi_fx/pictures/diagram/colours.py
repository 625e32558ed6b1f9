"""The colours of a diagram. A sign or a word says the same as each of them."""

from __future__ import annotations

INK, QUIET, LINE, SOFT, FAINT = "#1d2939", "#475467", "#7b8ba1", "#a3b0c2", "#c3cdd9"
PROBED, EDITED = "#155e75", "#7e22ce"

FAMILIES = {
    "convolution": "#d3e4fa",
    "linear": "#e5dcf6",
    "attention": "#f5d5ee",
    "norm": "#dff0d3",
    "recurrent": "#c9eceb",
    "embedding": "#fbd9df",
    "activation": "#fde6bf",
    "pooling": "#d5dce6",
    "dropout": "#e9e4da",
    "loss": "#f8cfbd",
}
"""The fill of a box, by the family of its class."""

PLAIN, PLUMBING, ENDS = "#f3f4f6", "#fafbfc", "#ffffff"
"""The fill of other modules and operations; of plumbing; of inputs, outputs and Python."""

CLUSTERS = ("#f8fafc", "#eef2f7", "#e4eaf2")
"""The fill of clusters, by depth."""

MARKS = {
    "forward": ("▼", "#0f766e"),
    "backward": ("▲", "#a8480f"),
    "parameters": ("■", "#475467"),
    "edits": ("ƒ", EDITED),
}
"""The sign and the colour of quantities, by side, and of edits."""

STATES = {"ok": "#15803d", "warn": "#a15c00", "alert": "#b91c1c"}
"""The colour of a value, by the state of its series."""
