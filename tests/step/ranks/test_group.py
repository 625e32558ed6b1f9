"""Ranks with one configuration are joined; groups that do not fit are refused on all of them."""

import pytest
import torch
from torch import distributed as dist

from taiyi_fx.step.ranks.group import Ranks, check_groups, form
from tests.distributed.processes import run


def seen(ranks):
    if ranks is None:
        return None
    return ranks.members, ranks.place, sorted(ranks.bringing), ranks.is_writer, ranks.brings_rows


def error_of(*args):
    """The message, in a tuple: a text alone would be the failure of the check."""
    with pytest.raises(ValueError) as caught:
        form(*args)
    return (str(caught.value),)


def of_one_configuration(rank, ranks):
    return seen(form("auto", None, "cfg"))


def of_two_configurations(rank, ranks):
    return seen(form("auto", None, "first" if rank == 1 else "others"))


def of_a_group_of_some(rank, ranks):
    group = dist.new_group([0, 2])
    return seen(form(group, None, "cfg")) if rank != 1 else None


def of_different_configurations_in_a_given_group(rank, ranks):
    group = dist.new_group([0, 1, 2])
    return error_of(group, None, f"cfg{rank // 2}")


def of_a_data_group(rank, ranks):
    pair, single = dist.new_group([0, 1]), dist.new_group([2])
    return seen(form("auto", pair if rank < 2 else single, "cfg"))


def of_a_data_group_on_some(rank, ranks):
    group = dist.new_group([0, 1])
    return error_of("auto", group if rank < 2 else None, "cfg")


def of_a_data_group_with_strangers(rank, ranks):
    group = dist.new_group([0, 1, 2])
    return error_of("auto", group if rank < 2 else None, "pair" if rank < 2 else "alone")


def of_gathering(rank, ranks):
    joined = form("auto", None, "cfg")
    mine = torch.tensor([rank, 10 * rank], dtype=torch.uint8)
    rows = joined.gather(mine, mine.new_empty(ranks, 2))
    return joined.gather_objects({"rank": rank}), rows, joined.device_types


CHECKS = {name: check for name, check in dict(globals()).items() if name.startswith("of_")}


@pytest.fixture(scope="module")
def answers():
    return run(CHECKS, 3)


def test_the_ranks_of_one_configuration_are_joined_and_the_first_records(answers):
    assert answers("of_one_configuration") == [
        ((0, 1, 2), place, [0, 1, 2], place == 0, True) for place in range(3)
    ]


def test_another_configuration_is_another_group_and_a_rank_alone_none(answers):
    first, alone, second = answers("of_two_configurations")
    assert first == ((0, 2), 0, [0, 1], True, True)
    assert second == ((0, 2), 1, [0, 1], False, True)
    assert alone is None


def test_a_group_of_some_ranks_joins_these(answers):
    assert [found and found[:2] for found in answers("of_a_group_of_some")] == [
        ((0, 2), 0),
        None,
        ((0, 2), 1),
    ]


def test_a_given_group_of_several_configurations_is_refused_on_all_ranks(answers):
    ((text,),) = set(answers("of_different_configurations_in_a_given_group"))
    assert "different configurations, those of [0, 1] and [2]: give each of them its own" in text


def test_the_data_group_of_the_first_rank_brings_the_rows(answers):
    assert [found[2:] for found in answers("of_a_data_group")] == [
        ([0, 1], True, True),
        ([0, 1], False, True),
        ([0, 1], False, False),
    ]


def test_a_data_group_on_some_ranks_is_refused_on_all(answers):
    ((text,),) = set(answers("of_a_data_group_on_some"))
    assert text == "data_group was given on the ranks [0, 1] of [0, 1, 2]: give it on all"


def test_a_data_group_with_other_ranks_is_refused_on_all(answers):
    ((text,),) = set(answers("of_a_data_group_with_strangers"))
    assert text.startswith("data_group on rank 0 has the ranks [2], which are not joined with it")


def test_all_ranks_have_what_each_gave(answers):
    for objects, rows, device_types in answers("of_gathering"):
        assert objects == [{"rank": rank} for rank in range(3)]
        assert rows.tolist() == [[0, 0], [1, 10], [2, 20]]
        assert "cpu" in device_types


def test_without_a_process_group_there_is_nobody_to_join():
    assert form("auto", None, "cfg") is None
    assert form(None, None, "cfg") is None


@pytest.mark.parametrize("place", [0, 1])
def test_the_first_place_records_and_places_that_bring_rows_count(place):
    ranks = Ranks(None, (3, 5), place, frozenset([1]), None)
    assert ranks.is_writer == (place == 0)
    assert ranks.brings_rows == (place == 1)


class Mesh:
    def get_group(self):
        raise AssertionError("only asked for")


@pytest.mark.parametrize(
    ("groups", "error", "text"),
    [
        ((3, None), TypeError, "not 3; this rank is not in that group: give None here"),
        ((Mesh(), None), TypeError, r"of a device mesh, take mesh.get_group\(\)"),
        (("auto", "auto"), TypeError, "data_group is None or a torch.distributed.ProcessGroup"),
        (("all", None), TypeError, "process_group is 'auto', None or a .*ProcessGroup, not 'all'"),
    ],
    ids=["not a member", "a mesh", "a data group as text", "a text"],
)
def test_what_is_no_group_is_refused_with_what_to_give(groups, error, text):
    with pytest.raises(error, match=text):
        check_groups(*groups)


def test_usual_groups_are_taken():
    check_groups("auto", None)
    check_groups(None, None)
