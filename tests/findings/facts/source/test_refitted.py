"""Encodings that are fitted anew."""

import pytest

from taiyi_fx.findings.facts.source.refitted import fitted_to_each, refitted_to_evaluation
from tests.findings.facts.source.reading import found_in

CODE = """
scaler = StandardScaler()
x_{train} = scaler.{first}(x_{train})
x_{other} = {scaler}.{second}(x_{other})
"""


def texts(
    other="val", second="fit_transform", scaler="scaler", first="fit_transform", train="train"
):
    code = CODE.format(other=other, second=second, scaler=scaler, first=first, train=train)
    return [text for _, text in found_in(code, refitted_to_evaluation)]


@pytest.mark.parametrize("other", ["val", "test", "valid", "dev"])
def test_a_fit_to_data_of_evaluation_is_found(other):
    assert texts(other) == [f"scaler.fit_transform(x_{other})"]
    assert texts(other, scaler="LabelEncoder()", first="fit") == [
        f"LabelEncoder().fit_transform(x_{other})"
    ]


def test_it_may_be_of_a_column():
    code = "s.fit(train[['a']])\ny = s.fit_transform(test['a'])\n"
    assert [text for _, text in found_in(code, refitted_to_evaluation)] == [
        "s.fit_transform(test['a'])"
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"second": "transform"},
        {"second": "fit"},
        {"other": "latest"},
        {"train": "val"},
        {"scaler": "TSNE(2)"},
        {"other": "train_val"},
    ],
    ids=[
        "transform",
        "a model of its own",
        "part of a word",
        "nothing of training",
        "drawn",
        "both",
    ],
)
def test_others_are_none(changed):
    assert texts(**changed) == []


EACH = """
def encode(df):
    return {fit}

x = encode({first})
y = encode({second})
"""


@pytest.mark.parametrize(
    ("fit", "first", "second", "found"),
    [
        ("pd.factorize(df['user'])[0]", "train_df", "val_df", True),
        ("LabelEncoder().fit_transform(df.user)", "train", "test", True),
        ("df['user'].factorize()[0]", "train", "test", True),
        ("df['user'].astype('category').cat.codes", "train", "test", True),
        ("pd.Categorical(df.user).codes", "train", "test", True),
        ("pd.Categorical(df.user, users).codes", "train", "test", False),
        ("pd.Categorical(df.user, categories=users).codes", "train", "test", False),
        ("pd.Categorical(df.user).categories", "train", "test", False),
        ("df['user'].astype(users).cat.codes", "train", "test", False),
        ("encoder.transform(df)", "train", "test", False),
        ("pd.factorize(other)[0]", "train", "test", False),
        ("pd.factorize(df['user'])[0]", "train", "rest", False),
        ("pd.factorize(df['user'])[0]", "train_and_val", "test", False),
    ],
)
def test_a_fit_in_a_function_of_both_is_found(fit, first, second, found):
    code = EACH.format(fit=fit, first=first, second=second)
    assert bool(found_in(code, fitted_to_each)) == found


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("train", "test", ["test"]),
        ("train['u']", "df_val.u", ["df_val.u"]),
        ("train", "rest", []),
        ("full", "test", []),
        ("train_val", "test", []),
    ],
)
@pytest.mark.parametrize(
    "fit",
    [
        "pd.factorize({})",
        "{}.factorize()",
        "{}.astype('category').cat.codes",
        "pd.Categorical({}).codes",
    ],
)
def test_codes_of_both_beside_each_other_are_found(fit, first, second, found):
    code = f"a = {fit.format(first)}\nb = {fit.format(second)}"
    assert [text for _, text in found_in(code, fitted_to_each)] == [fit.format(x) for x in found]


NUMBERED = """
def {name}(column):
    {begin}
    for value in column:
        {entry}
    return codes

x, y = {name}(train_log), {name}({second})
"""


@pytest.mark.parametrize(
    ("name", "begin", "entry", "second", "found"),
    [
        ("encoder", "codes = {}", "codes[value] = len(codes)", "val_log", True),
        ("item_map", "codes = {v: i for i, v in enumerate(column)}", "pass", "test_log", True),
        ("encoder", "codes = {}", "codes[value] = len(codes)", "other_log", False),
        ("encoder", "codes = {}", "codes[value] = len(value)", "val_log", False),
        ("codes", "codes = {len(v): i for i, v in enumerate(column)}", "pass", "val_log", False),
        ("look_up", "codes = {}", "codes[value] = len(codes)", "val_log", False),
    ],
    ids=["one by one", "at once", "of one", "lengths", "by length", "by name"],
)
def test_a_function_that_numbers_values_of_both_is_found(name, begin, entry, second, found):
    code = NUMBERED.format(name=name, begin=begin, entry=entry, second=second)
    assert bool(found_in(code, fitted_to_each)) == found
