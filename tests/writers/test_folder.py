"""The folder of a run, and of each rank."""

import pytest

import taiyi_fx
from tests.writers.runs import FORMATS, info, numbers

both = pytest.mark.parametrize("kind", FORMATS)


@both
def test_ranks_above_the_first_have_folders_of_their_own(kind, tmp_path):
    for rank in (0, 2):
        writer = kind(tmp_path)
        writer.open(info(rank=rank))
        writer.write(numbers(0, [float(rank)]))
        writer.close()
    for rank, folder in ((0, tmp_path), (2, tmp_path / "rank2")):
        with taiyi_fx.open_run(folder) as run:
            assert run.series("a", "q") == ([0], [rank])


@both
@pytest.mark.parametrize(("path", "error"), [(3, TypeError), (None, TypeError), ("", ValueError)])
def test_what_is_no_folder_is_refused_at_once(kind, path, error):
    with pytest.raises(error, match="a run is kept in a folder"):
        kind(path)
