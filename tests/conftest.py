"""One thread and one hypothesis profile: figures and examples that repeat."""

import gc
import importlib

import pytest
import torch
from hypothesis import HealthCheck, settings

from taiyi_fx import instrument  # noqa: F401 - declares all quantities, for `own_registry` to keep

settings.register_profile(
    "taiyi_fx",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("taiyi_fx")


QUICK_PAGES = ("test_real_pages", "test_live_run")
"""Where pages are opened by `make test`, too: those of real runs, and one that grows."""


def pytest_collection_modifyitems(items):
    """What inductor compiles takes long, and so do pages in a browser: the quick tests open some."""
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        is_compiled = any(isinstance(value, str) and value == "inductor" for value in values)
        opens_a_page = "browser" in item.fixturenames and item.path.stem not in QUICK_PAGES
        if is_compiled or opens_a_page:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Torch and all tests are a million objects: no collection of garbage looks at them again.

    Each that a test asks for would take half a second, and a hundredth without them. Those that no
    test asks for come seldom: what tests compile and import lives on, and is looked at in vain.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test declares is gone after it."""
    module = importlib.import_module("taiyi_fx.quantities.declare")
    monkeypatch.setattr(module, "_REGISTRY", dict(module._REGISTRY))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield
    torch.compiler.reset()
