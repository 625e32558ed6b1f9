"""The version, in the one place that the build reads too."""

import re
from pathlib import Path

from taiyi_fx.version import __version__

ROOT = Path(__file__).parent.parent


def test_the_build_and_the_citation_have_the_version_of_this_file():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'version = { attr = "taiyi_fx.version.__version__" }' in project
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: *(\S+)", citation, re.MULTILINE)[1].strip("'\"") == __version__
