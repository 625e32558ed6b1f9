"""Tables as text."""

from taiyi_fx.records.table import as_table


def test_columns_are_as_wide_as_their_widest_cell():
    table = as_table(("name", "n"), [("a", "100"), ("longer", "1")])
    assert table.splitlines() == [
        "name    n  ",
        "------  ---",
        "a       100",
        "longer  1  ",
    ]


def test_a_table_without_rows_is_its_head():
    assert as_table(("name", "n"), []).splitlines() == ["name  n", "----  -"]
