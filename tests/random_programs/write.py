"""Writes programs: the same one for the same seed."""

from __future__ import annotations

import dataclasses
import random
import re
from dataclasses import dataclass, field

from tests.random_programs.feature import Feature
from tests.random_programs.features import FEATURES
from tests.random_programs.program import Change, Entry, Fragment, Part, Program, Step

LINEAR, PART = (next(f for f in FEATURES if f.name == name) for name in ("linear", "part"))
SIGNATURES = ("x, mask=None",) * 6 + ("x, mask=None, **kwargs", "x, mask=None, *rest")
PICKS = {"x": "", "(x, x.mean())": "[0]", "{'x': x}": "['x']", "[x, None]": "[0]"}
QUANTITIES = (
    "InputSndNorm",
    "OutputGradSndNorm",
    "OutputRMS",
    "OutputNorm",
    "InputMean",
    "ForwardOutput",
    "BackwardOutput",
)
LEAF_QUANTITIES = (*QUANTITIES, "BackwardInput", "WeightNorm", "ForwardInput")
LEAVES = ("Linear", "ReLU", "Dropout", "Tanh", "BatchNorm1d")
SCHEDULES = ("every(1)", "every(1)", "linear(2, 0)", "linear(2, 1)", "at_steps(2)", "at_steps(99)")
WAYS = ("evaluation", "twice", "input's gradient", "no_grad", "input used")
EVERYWHERE = (
    "SELF.eval()",
    "SELF.train()",
    "SELF.requires_grad_(False)",
    "SELF.requires_grad_(True)",
    "SELF.register_forward_hook(lambda m, a, o: None)",
    "SELF.register_forward_pre_hook(lambda m, a: (a[0] * 2, *a[1:]))",
    "SELF._forward_hooks = collections.OrderedDict()\n"
    "SELF.register_forward_hook(lambda m, a, o: o * 2 if isinstance(o, torch.Tensor) else None)",
    "vars(SELF).update({k: type(v)(v) for k, v in vars(SELF).items() if isinstance(v, dict)})",
    "SELF._modules = dict(reversed(SELF._modules.items()))",
    "SELF._parameters = copy.deepcopy(SELF._parameters)",
    "SELF.__class__ = subclass(SELF)",
    "G.CLS.forward = scaled(G.CLS.forward)",
    "SELF.forward = scaled(SELF.forward)",
    "SELF.load_state_dict({k: v * 2 for k, v in SELF.state_dict().items()}, assign=True)",
    "SELF.load_state_dict({k: v * 2 for k, v in SELF.state_dict().items()})",
    "SELF.apply(lambda m: setattr(m, 'marked', True))",
    "torch.manual_seed(3)",
    "random.seed(4)",
    "np.random.seed(5)",
)


@dataclass
class _Class:
    """A class as it is written: its part, what may be changed, and where its parts are."""

    part: Part
    changes: list[str] = field(default_factory=list)
    within: list[tuple[str, str]] = field(default_factory=list)


class Writer:
    """Writes one program."""

    def __init__(self, seed: int, features: list[Feature]) -> None:
        self.seed, self.rng, self.number = seed, random.Random(seed), 0
        self.features = features
        self.classes: dict[str, _Class] = {}

    def program(self) -> Program:
        """Writes it."""
        for i in range(self.rng.choice([0, 1, 1, 2])):
            self._class(f"Part{i}", self.rng.choice([1, 2, 2, 3]))
        self._class("Net", self.rng.choice([1, 2, 3, 4]), is_root=True)
        parts = tuple(c.part for c in self.classes.values())
        return Program(self.seed, parts, self._steps(), self._entries())

    def _class(self, name: str, size: int, is_root: bool = False) -> None:
        rng = self.rng
        returns = "x" if rng.random() < 0.6 else rng.choice(list(PICKS))
        made = _Class(Part(name, rng.choice(SIGNATURES), returns, ()))
        fragments = [self._fragment(self._feature(), made) for _ in range(size)]
        if rng.random() < 0.7:
            fragments.insert(rng.randint(0, size), self._fragment(LINEAR, made))
        if is_root and self.classes and not made.within:
            fragments.append(self._fragment(PART, made))
        made.part = dataclasses.replace(made.part, fragments=tuple(fragments))
        self.classes[name] = made

    def _feature(self, inside: bool = False) -> Feature:
        """One that can stand here."""
        fit = [f for f in self.features if self.classes or "PART" not in f.forward + f.init]
        pick = self.rng.choice(fit or [LINEAR])
        if pick.is_around and inside and self.rng.random() < 0.6:
            pick = self.rng.choice([f for f in fit if not f.is_around] or [LINEAR])
        return pick

    def _fragment(self, feature: Feature, into: _Class) -> Fragment:
        self.number += 1
        words = {"CLS": into.part.name}
        if self.classes:
            words["PART"] = self.rng.choice(list(self.classes))
            words["PICK"] = PICKS[self.classes[words["PART"]].part.returns]
        number = self.number

        def told(text: str) -> str:
            text = re.sub(r"<<(.*?)>>", lambda m: self.rng.choice(m[1].split("|")), text)
            text = re.sub(r"_N\b|_N(?=_)", f"_{number}", text)
            return re.sub(r"\b(CLS|PART)\b|(PICK)\b", lambda m: words[m[0]], text)

        into.changes += [told(change) for change in feature.changes]
        into.within += [(told(path), words["PART"]) for path in feature.parts]
        kept = ("forward", "init", "top", "body", "parameter", "decorator")
        texts = {name: told(getattr(feature, name)) for name in kept}
        inner = self.rng.choice([1, 1, 2]) if feature.is_around else 0
        within = tuple(self._fragment(self._feature(inside=True), into) for _ in range(inner))
        return Fragment(feature.name, inner=within, **texts)

    def _instances(self) -> list[tuple[str, str]]:
        """Paths to instances and their classes."""
        found = [("model", "Net")]
        for path, name in found:
            inside = self.classes[name].within
            found += [(re.sub(r"\bSELF\b", path, p), n) for p, n in inside]
            if len(found) > 30:
                break
        return found

    def _change(self, instances: list[tuple[str, str]]) -> Change:
        path, name = self.rng.choice(instances)
        texts = self.classes[name].changes
        if not texts or self.rng.random() < 0.15:
            # The class of what is trained stays: it is taiyi_fx's on one side.
            texts = [t for t in EVERYWHERE if path != "model" or ".__class__" not in t]
        text = self.rng.choice(texts)
        return Change(re.sub(r"\bSELF\b", path, text.replace("CLS", name)))

    def _steps(self) -> tuple[Step, ...]:
        rng, steps, instances = self.rng, [], self._instances()
        for number in range(rng.choice([3, 4, 4, 5])):
            count = rng.choice([0, 1, 1, 2]) if number else 0
            changes = tuple(self._change(instances) for _ in range(count))
            ways = tuple(way for way in WAYS if rng.random() < 0.12)
            batch = rng.choice([3, 3, 2, 4, 1])
            steps.append(Step(changes, batch, rng.random() < 0.3, ways))
        return tuple(steps)

    def _entries(self) -> tuple[Entry, ...]:
        rng = self.rng
        names = [path.partition(".")[2] for path, _ in self._instances()]
        names = [re.sub(r"\[(\d+)\]", r".\1", name) for name in names if "'" not in name]
        entries = []
        for _ in range(rng.choice([1, 2, 3])):
            key = rng.choice([*LEAVES, "nn.Module", "Linear", "leaves", *names, *self.classes])
            quantities = LEAF_QUANTITIES if key in LEAVES else QUANTITIES
            entries.append(Entry(key, rng.choice(quantities), rng.choice(SCHEDULES)))
        return tuple(entries)


def write(seed: int, features: list[Feature] = FEATURES) -> Program:
    """The program of a seed."""
    return Writer(seed, features).program()
