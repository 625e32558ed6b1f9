"""Augmentations of images that masks and boxes beside them do not get, or by draws of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TypeGuard

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Function,
    called,
    calls_in,
    given_in,
    inner,
    scopes_of,
    statements_in,
    values_in,
    walked,
)

_IMAGES = re.compile(r"(x|xs|im|ims|imgs?|images?|inputs?|pixels?|pixel_values|batch)(_\w+)?")
_PLACES = re.compile(r"(masks?|box(es)?|bbox(es)?|keypoints?|segmentations?|seg_?maps?)(_\w+)?")
_FLIPS = frozenset("flip fliplr hflip flip_left_right horizontal_flip".split())
_MOVES = _FLIPS | frozenset("flipud vflip rot90 rotate roll crop affine transpose".split())
_DRAWS = frozenset("random rand bernoulli uniform randint binomial choice".split())
_SEEDS = frozenset("manual_seed seed set_state setstate set_rng_state Random Generator".split())
"""Functions by which two draws can be made the same."""
_RANDOM = re.compile(
    r"Random(HorizontalFlip|VerticalFlip|Crop|ResizedCrop|Rotation|Affine|Perspective)"
)


def parted_flips(tree: ast.Module) -> Iterator[ast.expr]:
    """The images that are turned round, where the masks or boxes beside them stay as they are.

    Of code in which both have a name, and nothing is done with the other behind the flip.
    """
    for scope in scopes_of(tree):
        places = {
            x.id for x in walked(scope) if isinstance(x, ast.Name) and _PLACES.fullmatch(x.id)
        }
        sets = [x for x in statements_in(scope) if isinstance(x, (ast.Assign, ast.AugAssign))]
        flips = [(node, call) for node in sets for call in _flips_of(node)]
        every = (call for call in calls_in(scope) if called(call) in _FLIPS)
        flipped = {x for call in every for x in _all_names(call)}
        if not places or not flips or flipped & places:
            continue
        first = min(node.lineno for node, _ in flips)
        turned = {
            name
            for node in sets
            if node.lineno >= first
            for target in ([node.target] if isinstance(node, ast.AugAssign) else node.targets)
            for name in _all_names(target) & places
            if not _is_copy(node.value)
        }
        if not turned:
            yield from (call for node, call in flips if _is_of_image(node, call))


def _flips_of(node: ast.Assign | ast.AugAssign) -> list[ast.Call]:
    return [x for x in walked(node.value) if isinstance(x, ast.Call) and called(x) in _FLIPS]


def _is_of_image(node: ast.Assign | ast.AugAssign, call: ast.Call) -> bool:
    """True for a flip of an image that takes the place of it."""
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
    kept = {name for target in targets for name in _all_names(target)}
    return any(_IMAGES.fullmatch(name) for name in _all_names(call) & kept)


def _all_names(node: ast.AST) -> set[str]:
    return {x.id for x in walked(node) if isinstance(x, ast.Name)}


def _is_copy(value: ast.expr) -> bool:
    """True for a plain copy, or several."""
    every = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(x, ast.Call) and called(x) in ("clone", "copy") for x in every)


def drawn_apart(tree: ast.Module) -> Iterator[ast.expr]:
    """The draws by which masks or boxes are moved, where another one moves their images.

    As two branches ``if random.random() < 0.5``, or one random transform that is called of either.
    """
    transforms = _random_transforms(tree)
    for scope in scopes_of(tree):
        calls = calls_in(scope)
        if any(called(call) in _SEEDS for call in calls):
            continue
        branches = [x for x in inner(scope) if isinstance(x, ast.If) and _is_draw(x.test)]
        yield from _of_places_alone([(x.test, _moved_in(x)) for x in branches])
        for transform in transforms:
            own = [x for x in calls if ast.unparse(x.func) == transform and len(x.args) == 1]
            yield from _of_places_alone([(x, _all_names(x.args[0])) for x in own])


def _random_transforms(tree: ast.Module) -> set[str]:
    """The names by which code calls random transforms: of torchvision, or of the same file.

    Also ``self.transform``, where a class of the file is given one for it.
    """
    own = {x.name for x in walked(tree) if _draws_and_moves(x)}
    every = values_in(walked(tree)).items()
    found = own | {name for name, of in every if all(_is_random(value, own) for value in of)}
    for kind in (x for x in walked(tree) if isinstance(x, ast.ClassDef)):
        begin = next((x for x in kind.body if getattr(x, "name", "") == "__init__"), None)
        if isinstance(begin, FUNCTIONS):
            made = [x for x in walked(tree) if isinstance(x, ast.Call) and called(x) == kind.name]
            given = {name for call in made for name in _given_random(call, begin, found)}
            sets = given_in(walked(begin))
            found |= {x.name for x in sets if ast.unparse(x.value) in given}
    return found


def _draws_and_moves(node: ast.AST) -> TypeGuard[Function | ast.ClassDef]:
    """True for a function that moves by a draw, and for a class that is called as one."""
    if isinstance(node, ast.ClassDef):
        calls = (x for x in node.body if getattr(x, "name", "") in ("__call__", "forward"))
        return any(map(_draws_and_moves, calls))
    names = {called(call) for call in calls_in(node)} if isinstance(node, FUNCTIONS) else set()
    return bool(names & _DRAWS and names & _MOVES)


def _is_random(value: ast.expr, own: Collection[str]) -> bool:
    is_one = isinstance(value, ast.Name) and value.id in own
    calls = (x for x in walked(value) if isinstance(x, ast.Call))
    return is_one or any(called(x) in own or _RANDOM.match(called(x)) for x in calls)


def _given_random(call: ast.Call, begin: Function, own: Collection[str]) -> Iterator[str]:
    """The names under which a class is given random transforms."""
    names = [one.arg for one in begin.args.args[1:]]
    given = [*zip(names, call.args, strict=False)]
    given += [(one.arg or "", one.value) for one in call.keywords]
    yield from (name for name, value in given if _is_random(value, own))


def _of_places_alone(draws: Sequence[tuple[ast.expr, set[str]]]) -> Iterator[ast.expr]:
    """The draws for masks or boxes alone, if there is one for images alone."""
    of_images = [x for x, names in draws if _has(names, _IMAGES) and not _has(names, _PLACES)]
    of_places = [x for x, names in draws if _has(names, _PLACES) and not _has(names, _IMAGES)]
    yield from of_places if of_images else ()


def _has(names: set[str], known: re.Pattern[str]) -> bool:
    return any(map(known.fullmatch, names))


def _is_draw(test: ast.expr) -> bool:
    return any(isinstance(x, ast.Call) and called(x) in _DRAWS for x in walked(test))


def _moved_in(branch: ast.If) -> set[str]:
    """The names that a branch sets to what is moved."""
    return {
        name
        for node in walked(branch)
        if isinstance(node, ast.Assign)
        for call in walked(node.value)
        if isinstance(call, ast.Call) and called(call) in _MOVES
        for target in node.targets
        for name in _all_names(target)
    }
