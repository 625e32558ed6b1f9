"""One writer at a time."""

import subprocess
import sys

import pytest

from taiyi_fx.writers import Store
from tests.writers.runs import FORMATS, opened

both = pytest.mark.parametrize("kind", FORMATS)


@both
def test_a_second_writer_is_refused_while_the_first_lives(kind, tmp_path):
    first = opened(kind, tmp_path)
    with pytest.raises(BlockingIOError, match=r"another writer has .* open.*monitor.close\(\)"):
        opened(kind, tmp_path, start_step=1)
    first.close()
    opened(kind, tmp_path).close()


def test_a_second_writer_in_another_process_is_refused(tmp_path):
    first = opened(Store, tmp_path)
    code = (
        "import sys; from tests.writers.runs import *\n"
        "try: opened(Store, sys.argv[1])\n"
        "except BlockingIOError: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == 7
    first.close()
