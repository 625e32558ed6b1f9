"""Programs that were written at random do the same watched and plain; and the test of that test."""

import warnings

import pytest

from tests.random_programs.__main__ import case_text
from tests.random_programs.causes import Causes
from tests.random_programs.features import FEATURES
from tests.random_programs.load import loaded
from tests.random_programs.mutants import MUTANTS
from tests.random_programs.program import Step
from tests.random_programs.run import Unfit, run
from tests.random_programs.sides import Side
from tests.random_programs.watch import left_alone
from tests.random_programs.write import write

CHUNK = 20


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_watching_changes_nothing(first):
    failed = {seed: found for seed in range(first, first + CHUNK) if (found := run(write(seed)))}
    if failed:
        lines = "\n".join(f"seed {seed}: {found}" for seed, found in failed.items())
        seed = next(iter(failed))
        smallest = Causes().add(seed, write(seed), failed[seed])
        pytest.fail(f"{lines}\n\nthe first one, shrunk:\n\n{case_text(smallest)}", pytrace=False)


@pytest.mark.slow
def test_without_watching_nothing_ever_differs():
    assert not {seed: found for seed in range(300) if (found := run(write(seed), left_alone))}


def test_the_same_program_is_written_for_a_seed():
    assert write(7) == write(7)
    assert write(7).text() == write(7).text()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_watch_is_caught(mutant):
    assert any(run(write(seed), MUTANTS[mutant]) for seed in range(400)), mutant


def test_a_failure_is_shrunk_to_what_it_takes():
    causes = Causes(MUTANTS["draws_at_instrument"])
    found = run(write(0), causes.watch)
    smallest = causes.add(0, write(0), found).program
    assert smallest.features() == []
    assert smallest.steps == ()


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_each_feature_goes_through_a_step(feature):
    """In some of its programs: what raises in all of them tries nothing."""
    assert any(not errors(write(seed, [feature])) for seed in range(8))


def errors(program):
    with warnings.catch_warnings(), loaded(program.source(), lambda: None) as (module, _):
        warnings.simplefilter("ignore")
        found = Side(module, module.make()).go(0, Step())
    return [value for path, value in found.items() if path.endswith("raised")]


def test_a_program_that_makes_no_model_is_unfit():
    program = write(0)
    broken = type(program)(
        0, (*program.parts[:-1], type(program.parts[-1])("1", "x", "x", ())), (), ()
    )
    with pytest.raises(Unfit):
        run(broken)
