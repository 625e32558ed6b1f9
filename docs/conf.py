"""For Sphinx: `make docs` builds the pages into build/docs, where any warning is an error."""

import importlib
import importlib.util
from pathlib import Path

import tomllib
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import taiyi_fx

logger = logging.getLogger(__name__)

_ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "taiyi_fx"
author = _PROJECT["authors"][0]["name"]
release = version = taiyi_fx.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["conf.py"]

html_theme = "furo"
html_title = f"taiyi_fx {release}"
html_show_copyright = False

# Headings are link targets, as they are on the hosts of repositories.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# `name` in a docstring is a link where it names something, and code where it doesn't.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# What a docstring needs is on the page; frameworks that are not installed are stood in for.
autodoc_mock_imports = [
    name
    for name in ("lightning", "transformers", "accelerate", "ignite", "wandb", "mlflow", "trackio")
    if importlib.util.find_spec(name) is None
]


def check_reference(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns, which ends the build, of public names that the reference lacks."""
    told = {name for name, *_ in env.get_domain("py").get_objects()}
    for package in ("taiyi_fx", "taiyi_fx.writers", "taiyi_fx.runs", "taiyi_fx.testing"):
        for name in importlib.import_module(package).__all__:
            if not told & {f"{package}.{name}", f"taiyi_fx.{name}"}:
                logger.warning("the reference lacks %s.%s", package, name)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("env-check-consistency", check_reference)
