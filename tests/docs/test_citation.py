"""CITATION.cff says what pyproject.toml says, in the form that hosts of repositories read."""

import sys
from pathlib import Path

import pytest
import yaml

import taiyi_fx

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


@pytest.fixture
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_has_what_the_format_asks_for(citation):
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert citation["type"] == "software"


def test_it_is_of_this_version_and_these_authors(citation, project):
    assert str(citation["version"]) == taiyi_fx.__version__
    assert citation["authors"] == project["authors"]


def test_its_licence_is_the_projects_own(citation, project):
    assert citation["license"] in project["license"].split(" AND ")
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith(f"{citation['license']} ")


def test_its_keys_are_the_formats(citation):
    known = """
        abstract authors cff-version commit contact date-released doi identifiers keywords license
        license-url message preferred-citation references repository repository-artifact
        repository-code title type url version
    """
    assert citation.keys() <= set(known.split())
