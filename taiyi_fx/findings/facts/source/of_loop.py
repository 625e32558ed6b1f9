"""Slips in the code that trains, wherever it is: it is read, and none of it is run."""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from taiyi_fx.findings.facts.source.arguments import swapped_arguments
from taiyi_fx.findings.facts.source.averages import averages_without_buffers, turned_averages
from taiyi_fx.findings.facts.source.clearing import cleared_between, clipped_between
from taiyi_fx.findings.facts.source.clipping import clips_behind_steps
from taiyi_fx.findings.facts.source.conditions import foreign_conditions
from taiyi_fx.findings.facts.source.derivatives import terms_without_gradient
from taiyi_fx.findings.facts.source.diffusion import (
    products_of_betas,
    uncumulated_noise,
    uniform_noise,
)
from taiyi_fx.findings.facts.source.early_clearing import cleared_too_early
from taiyi_fx.findings.facts.source.endless import endless_targets
from taiyi_fx.findings.facts.source.evaluations import evaluated_in_training_mode
from taiyi_fx.findings.facts.source.flips import drawn_apart, parted_flips
from taiyi_fx.findings.facts.source.grids import turned_grids
from taiyi_fx.findings.facts.source.held_weights import lagging_targets, live_states
from taiyi_fx.findings.facts.source.inlined import forms_of
from taiyi_fx.findings.facts.source.kept_graphs import kept_graphs
from taiyi_fx.findings.facts.source.loading import (
    changed_rows,
    copied_generators,
    weights_of_classes,
)
from taiyi_fx.findings.facts.source.mixtures import turned_mixtures
from taiyi_fx.findings.facts.source.model_arguments import swapped_in_calls
from taiyi_fx.findings.facts.source.numbered import taken_by_number
from taiyi_fx.findings.facts.source.of_classes import is_returning
from taiyi_fx.findings.facts.source.orders import (
    leaked_targets,
    parted_pairs,
    rewards_in_reversed_order,
)
from taiyi_fx.findings.facts.source.plateaus import turned_plateaus
from taiyi_fx.findings.facts.source.policies import (
    actions_drawn_again,
    turned_ends,
    turned_entropies,
    turned_policies,
    turned_preferences,
    turned_ratios,
)
from taiyi_fx.findings.facts.source.predicted_noise import foreign_noise
from taiyi_fx.findings.facts.source.reach import Reach
from taiyi_fx.findings.facts.source.refitted import fitted_to_each, refitted_to_evaluation
from taiyi_fx.findings.facts.source.remade import remade_optimizers
from taiyi_fx.findings.facts.source.reseeding import seeds_in_loops
from taiyi_fx.findings.facts.source.residuals import residuals_without_graph
from taiyi_fx.findings.facts.source.restored import never_restored
from taiyi_fx.findings.facts.source.rounded_times import rounded_times
from taiyi_fx.findings.facts.source.running import Running
from taiyi_fx.findings.facts.source.saved_tensors import mistaken_tensors
from taiyi_fx.findings.facts.source.scaling import scaled_clips, scalers_never_updated
from taiyi_fx.findings.facts.source.schedules import misplaced_schedules
from taiyi_fx.findings.facts.source.second_derivatives import second_derivatives
from taiyi_fx.findings.facts.source.shared_weights import doubly_trained
from taiyi_fx.findings.facts.source.slip import Slip, shortened
from taiyi_fx.findings.facts.source.splits import unused_splits, whole_splits
from taiyi_fx.findings.facts.source.syntax import parsed, walked
from taiyi_fx.findings.facts.source.teachers import teachers_in_training_mode
from taiyi_fx.findings.facts.source.terms import constant_terms, lost_terms
from taiyi_fx.findings.facts.source.text_ends import ends_as_padding
from taiyi_fx.findings.facts.source.torn_views import torn_views
from taiyi_fx.findings.facts.source.unused import unused_adaptations, unused_offsets, unused_parts
from taiyi_fx.findings.facts.source.view_pairs import mispaired_views

_Reader = Callable[[ast.Module], Iterator[ast.expr]]


def slips_of_loop(
    running: Running,
    failed: Callable[[str, Exception], None] | None = None,
    arguments: Sequence[str] = (),
) -> tuple[Slip, ...]:
    """The slips in code that runs; none in what was typed in by hand.

    Args:
        running: The code, as `code_of_loop` has it; and what it names in the same file.
        failed: Is told the kind of slips that was not looked for, as its reader failed; without it
            the error goes on.
        arguments: The names of the arguments of the model's forward, in their order.
    """
    names = tuple(arguments)
    files = (_read(path, lines, failed, names) for path, lines in running.items())
    return tuple(slip for found in files for slip in found)


def _read(
    path: str,
    lines: Collection[int],
    failed: Callable[[str, Exception], None] | None,
    arguments: tuple[str, ...],
) -> list[Slip]:
    """The slips in a file; none in what is no code of Python, or nested beyond what can be read."""
    code, file = "".join(linecache.getlines(path)), path.replace("\\", "/").rpartition("/")[2]
    try:
        found, errors = _found_in(code, arguments)
        runs = Reach(parsed(code), lines) if found else ()
    except (SyntaxError, RecursionError):
        return []
    for kind, error in errors:
        if failed is None:
            raise error
        failed(kind, error)
    return [Slip(text, f"{file}:{line}", kind) for text, line, kind in found if line in runs]


@functools.lru_cache(maxsize=64)  # several monitors may be of one script
def _found_in(
    code: str, arguments: tuple[str, ...]
) -> tuple[Sequence[tuple[str, int, str]], Sequence[tuple[str, Exception]]]:
    """The text, line and kind of each slip in code; and the kind and error of readers that fail.

    Raises:
        SyntaxError: It is not Python's.
        RecursionError: It is nested beyond what can be read.
    """
    forms, lower = [*forms_of(code)], code.lower()
    found, errors = dict[tuple[str, int, str], None](), list[tuple[str, Exception]]()
    of_model = functools.partial(swapped_in_calls, arguments=arguments)
    for kind, (read, words) in (*_READERS.items(), ("swapped_inputs", (of_model, "("))):
        try:
            slips = _first_found(read, forms) if _has_any(lower, words) else []
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001 - told, or raised, by who asks
            errors.append((kind, error.with_traceback(None)))
            continue
        found |= dict.fromkeys((shortened(one), one.lineno, kind) for one in slips)
    return [*found], errors


def _first_found(read: _Reader, forms: Sequence[ast.Module]) -> list[ast.expr]:
    """The slips in the first form of the code in which there are any.

    Raises:
        RecursionError: The code as it is written is nested beyond what can be read.
    """
    written, *others = forms
    found = [*read(written)]
    for form in others:
        if found:
            break
        with contextlib.suppress(RecursionError):  # of values within values
            found = [*read(form)]
    return found


def _has_any(code: str, words: str) -> bool:
    return any(word in code for word in words.lower().split())


def _results_thrown_away(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls of methods that return another tensor, of ``.data`` or ``.grad``."""
    statements = (node.value for node in walked(tree) if isinstance(node, ast.Expr))
    return filter(_leaves_a_tensor_as_it_is, statements)


def _leaves_a_tensor_as_it_is(call: ast.expr) -> bool:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    given = call.func.value
    is_tensor = isinstance(given, ast.Attribute) and given.attr in ("data", "grad")
    is_plain = not any(keyword.arg in ("out", None) for keyword in call.keywords)
    return is_tensor and is_plain and is_returning(call.func.attr)


_READERS: Mapping[str, tuple[_Reader, str]] = {
    "dropped_result": (_results_thrown_away, "data grad"),
    "constant_penalty": (terms_without_gradient, "autograd"),
    "constant_derivative": (residuals_without_graph, "autograd"),
    "flat_derivative": (second_derivatives, "autograd"),
    "constant_term": (constant_terms, "item detach numpy .data"),
    "lost_term": (lost_terms, "backward"),
    "early_clearing": (cleared_too_early, "zero_grad"),
    "cleared_between": (cleared_between, "zero_grad"),
    "clipped_between": (clipped_between, "clip_grad"),
    "late_clipping": (clips_behind_steps, "clip_grad"),
    "scaled_clipping": (scaled_clips, "clip_grad"),
    "stuck_scaler": (scalers_never_updated, "scaler"),
    "reseeded": (seeds_in_loops, "seed"),
    "remade_optimizer": (remade_optimizers, "backward"),
    "misplaced_schedule": (misplaced_schedules, "LR _schedule_"),
    "turned_plateau": (turned_plateaus, "ReduceLROnPlateau"),
    "live_state": (live_states, "load_state_dict"),
    "lagging_target": (lagging_targets, "deepcopy"),
    "doubly_trained": (doubly_trained, "parameters"),
    "unused_part": (unused_parts, "backward"),
    "unused_adaptation": (unused_adaptations, "fast adapted inner"),
    "unused_split": (unused_splits, "train"),
    "whole_split": (whole_splits, "train"),
    "noisy_teacher": (teachers_in_training_mode, "teacher"),
    "unused_offset": (unused_offsets, "offset"),
    "endless_target": (endless_targets, "gamma discount"),
    "uncumulated_noise": (uncumulated_noise, "cumprod"),
    "product_of_betas": (products_of_betas, "cumprod"),
    "mistaken_tensor": (mistaken_tensors, "save_for_backward"),
    "foreign_condition": (foreign_conditions, "d( dis critic judge"),
    "foreign_noise": (foreign_noise, "randn"),
    "uniform_noise": (uniform_noise, "rand_like rand( uniform_"),
    "rounded_times": (rounded_times, "float32 float single"),
    "refitted": (refitted_to_evaluation, "fit_transform"),
    "fitted_to_each": (fitted_to_each, "fit_transform factorize encod vocab map id code"),
    "class_sampler": (weights_of_classes, "WeightedRandomSampler"),
    "copied_generator": (copied_generators, "num_workers"),
    "changed_data": (changed_rows, "__getitem__"),
    "ends_as_padding": (ends_as_padding, "pad_token"),
    "mispaired_views": (mispaired_views, "arange"),
    "torn_view": (torn_views, "shape size"),
    "parted_pairs": (parted_pairs, "randperm permutation randint choice integers shuffle"),
    "turned_mixture": (turned_mixtures, "randperm permutation shuffle flip roll"),
    "taken_by_number": (taken_by_number, "enumerate"),
    "parted_flip": (parted_flips, "flip"),
    "turned_grid": (turned_grids, "zeros ones full empty"),
    "drawn_apart": (drawn_apart, "mask box keypoint seg"),
    "leaked_target": (leaked_targets, "y target label"),
    "reversed_returns": (rewards_in_reversed_order, "append"),
    "turned_ratio": (turned_ratios, "ratio"),
    "turned_preference": (turned_preferences, "sigmoid"),
    "turned_average": (turned_averages, "ema avg averag tgt target teacher shadow slow momentum"),
    "unrestored_average": (never_restored, "copy_ .data load_state_dict apply_shadow copy_to"),
    "averaged_parameters": (averages_without_buffers, "zip"),
    "missing_eval": (evaluated_in_training_mode, "no_grad inference_mode"),
    "kept_graph": (kept_graphs, "backward"),
    "swapped_arguments": (swapped_arguments, "loss cross_entropy kl_div attention Normal"),
    "turned_policy": (turned_policies, "log"),
    "turned_end": (turned_ends, "gamma discount"),
    "turned_entropy": (turned_entropies, "entropy"),
    "drawn_again": (actions_drawn_again, "log_prob"),
}
"""The readers of code that trains, by the kind of the finding that tells what they find; each with
words of which one has to be in the code, in letters of any case, as most files have none."""

_OF_RESULTS = (
    "live_state missing_eval refitted fitted_to_each averaged_parameters copied_generator "
    "ends_as_padding kept_graph"
).split()
"""Kinds that leave a training itself as it is: what is kept of it, evaluated, or generated."""
OF_TRAINING = frozenset(_READERS).difference(_OF_RESULTS)
"""Kinds of what is wrong in how a model is trained."""
