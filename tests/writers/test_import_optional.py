"""Packages that only some writers need: imported late, and named where they are missing."""

import subprocess
import sys

import pytest

from taiyi_fx.writers.import_optional import import_optional


def test_a_package_that_is_not_there_is_named_with_what_to_install():
    with pytest.raises(ImportError, match=r"needs no_such: pip install 'taiyi-fx\[some\]'"):
        import_optional("no_such.part", "some")


def test_what_a_package_itself_lacks_is_not_hidden():
    with pytest.raises(ModuleNotFoundError, match="No module named 'taiyi_fx.none'"):
        import_optional("taiyi_fx.none", "some")


def test_an_import_brings_no_writers_package_along():
    packages = {"tensorboard", "matplotlib", "plotly", "rich", "wandb", "mlflow", "trackio", "PIL"}
    code = f"import sys, taiyi_fx, taiyi_fx.writers; print(*({packages} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []
