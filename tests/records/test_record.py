"""Records in memory: a table that is bounded, and one that can be searched."""

import torch

from taiyi_fx.records.record import Record, Records


def test_the_oldest_records_go_first_and_tensors_count_by_their_elements():
    records = Records([Record(step, "fc", "t", torch.zeros(10)) for step in range(10)])
    records.keep(100)
    assert len(records) == 10
    records.append(Record(10, "fc", "n", 1.0))
    records.keep(100)
    assert [r.step for r in records] == [2, 3, 4, 5, 6, 7, 8, 9, 10]  # 81 numbers, of 90 at most
    records.keep(100)
    assert records.dropped == 2
