"""Embeddings that are given the indices of another one."""

import ast

import pytest

from taiyi_fx.findings.facts.source.lookups import foreign_lookups

EMBEDDINGS = {"user_emb", "item_emb", "user_bias", "item_bias", "items", "table"}


def found(body, arguments="user, item"):
    tree = ast.parse(f"def forward(self, {arguments}):\n    return {body}\n")
    return [ast.unparse(one) for one in foreign_lookups(tree, EMBEDDINGS)]


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("self.user_emb(user) * self.item_emb(user)", "user, item"),
        ("self.user_emb(user) * self.item_emb(user) + self.item_bias(item)", "user, item"),
        ("self.user_emb(user_ids) * self.item_emb(user_ids)", "user_ids, item_ids"),
        ("self.user_emb(users) * self.items(users)", "users, *, items"),
    ],
)
def test_an_embedding_with_the_name_of_another_argument_is_found(body, arguments):
    (code,) = found(body, arguments)
    assert code.startswith("self.item")


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("self.user_emb(user) * self.item_emb(item)", "user, item"),
        ("self.user_emb(user) * self.item_emb(positive_items)", "user, positive_items, items"),
        ("self.user_emb(user) * self.table(user)", "user, item"),
        ("self.item_emb(user)", "user, item"),
        ("self.user_emb(user) * self.other_item(user)", "user, item"),
        ("self.user_emb(user) * self.item_emb(user)", "user, other"),
        ("self.user_emb(user) * self.item_emb(user.flip(0))", "user, item"),
        ("self.user_emb(u) * self.item_emb(u)", "u, i"),
        ("self.user_emb(user) * other.item_emb(user)", "user, item"),
    ],
)
def test_others_are_none(body, arguments):
    assert found(body, arguments) == []
