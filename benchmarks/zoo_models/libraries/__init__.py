"""Models of many libraries, each of which is skipped, and said to be, where it is not installed.

`packages.txt` and `needed.txt` list what `make zoo-libraries` installs for them.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries import (
    diffusers_models,
    graphs,
    lucidrains_language,
    lucidrains_vision,
    medical,
    probabilistic,
    reinforcement,
    speech,
    tables,
    vision,
)
from benchmarks.zoo_models.vision_operators import define_vision_operators

SHORT = tuple(
    f"libraries/{name}"
    for name in (
        "diffusers/UNet2DConditionModel",
        "gpytorch/ApproximateGP",
        "monai/UNet",
        "peft/LoraConfig",
        "snntorch/Leaky",
        "speechbrain/ECAPA_TDNN",
        "stable-baselines3/the loss of PPO",
        "torch-geometric/GAT",
        "vit-pytorch/ViT",
        "zuko/MAF",
    )
)

_GROUPS = (
    diffusers_models,
    graphs,
    lucidrains_language,
    lucidrains_vision,
    medical,
    probabilistic,
    reinforcement,
    speech,
    tables,
    vision,
)


def all_cases() -> list[Case]:
    """All cases, whether their packages are installed or not."""
    return [case for group in _GROUPS for case in group.cases()]


def package(case: Case) -> str:
    """The package that a case's model is of, as pip knows it."""
    return case.name.split("/")[1]


def cases() -> list[Case]:
    """The cases of installed packages; of others, a line is printed.

    Raises:
        ModuleNotFoundError: If none is installed.
    """
    found = all_cases()
    missing = Counter(name for name in map(package, found) if not _is_installed(name))
    if missing.total() == len(found):
        raise ModuleNotFoundError("none of its packages is installed: `make zoo-libraries`")
    for name, count in missing.items():
        print(f"libraries/{name}: {count} skipped, not installed")
    define_vision_operators()
    return [case for case in found if package(case) not in missing]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
