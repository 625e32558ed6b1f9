"""Groups of runs: each argument is one."""

import pytest

from taiyi_fx.cli.groups import groups_of
from taiyi_fx.cli.refused import Refused


def test_an_argument_is_a_run_several_with_commas_or_all_that_match(tmp_path):
    for name in ("old-2", "old-0", "old-1", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "old-notes").write_text("a file is no run")
    old = [str(tmp_path / f"old-{i}") for i in range(3)]
    assert groups_of([old[1]]) == [[old[1]]]
    assert groups_of([f"{old[1]},{old[0]}", str(tmp_path / "new")]) == [
        [old[1], old[0]],
        [str(tmp_path / "new")],
    ]
    assert groups_of([str(tmp_path / "old-*")]) == [old]
    assert groups_of([f"{tmp_path / 'old-[01]'},{tmp_path / 'new'}"]) == [
        [*old[:2], str(tmp_path / "new")]
    ]


def test_a_folder_of_any_name_is_one_run(tmp_path):
    odd = tmp_path / "a,b[*]"
    odd.mkdir()
    assert groups_of([str(odd)]) == [[str(odd)]]


def test_what_is_not_there_is_left_to_be_told_where_it_is_opened_but_patterns_match(tmp_path):
    assert groups_of([str(tmp_path / "none")]) == [[str(tmp_path / "none")]]
    assert groups_of([","]) == [[","]]
    with pytest.raises(Refused, match="no folder matches"):
        groups_of([str(tmp_path / "none-*")])
