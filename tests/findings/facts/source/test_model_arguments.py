"""Inputs that a model is given in each other's place."""

import ast

import pytest

from taiyi_fx.findings.facts.source.model_arguments import swapped_in_calls

OF_BERT = ["input_ids", "attention_mask", "token_type_ids"]


def found(code, arguments=OF_BERT):
    return [ast.unparse(one) for one in swapped_in_calls(ast.parse(code), arguments)]


@pytest.mark.parametrize(
    "call",
    [
        "model(input_ids, token_type_ids, attention_mask, labels=labels)",
        "self.model(input_ids, token_type_ids, attention_mask)",
        "bert(attention_mask, input_ids)",
        "seen(input_ids.long(), token_type_ids, attention_mask)",
    ],
)
def test_two_variables_in_each_others_place_are_found(call):
    assert found(f"seen = taiyi_fx.instrument(bert, 'transformer')\nout = {call}") == [call]


@pytest.mark.parametrize(
    "call",
    [
        "model(input_ids, attention_mask, token_type_ids)",
        "model(input_ids, attention_mask=token_type_ids, token_type_ids=attention_mask)",
        "model(input_ids, token_type_ids)",
        "model(*input_ids, token_type_ids, attention_mask)",
        "TensorDataset(input_ids, token_type_ids, attention_mask)",
        "model(x, y, z)",
    ],
)
def test_others_are_none(call):
    assert found(call) == []


def test_names_of_one_letter_may_be_anything():
    assert found("model(t, x)", ["x", "t"]) == []
    assert found("model(time, pos)", ["pos", "time"]) == ["model(time, pos)"]
