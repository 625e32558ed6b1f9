"""Arguments in another order than that of their function."""

import pytest

from taiyi_fx.findings.facts.source.arguments import swapped_arguments
from tests.findings.facts.source.reading import found_in


@pytest.mark.parametrize(
    "code",
    [
        "F.binary_cross_entropy(labels.float(), pred)",
        "F.binary_cross_entropy_with_logits(y[:, None], logits)",
        "F.gaussian_nll_loss(mean, var, target)",
        "F.kl_div(teacher_prob, student_log_prob)",
        "F.kl_div(p.softmax(-1), log_q)",
        "F.ctc_loss(log_probs, targets, target_lengths, input_lengths)",
        "F.triplet_margin_loss(anchor, negative, positive)",
        "F.scaled_dot_product_attention(q, v, k)",
        "F.scaled_dot_product_attention(self.q_proj, self.v_proj, self.k_proj)",
        "Normal(std, mean)",
        "torch.distributions.Normal(log_std.exp(), mu)",
    ],
)
def test_arguments_with_each_others_names_are_found(code):
    assert len(found_in(code, swapped_arguments)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "F.binary_cross_entropy(pred, labels.float())",
        "F.binary_cross_entropy_with_logits(logits, y)",
        "F.binary_cross_entropy(x_hat, x)",
        "F.gaussian_nll_loss(mean, target, var)",
        "F.kl_div(log_p, q)",
        "F.kl_div(p, log_q, log_target=True)",
        "F.kl_div(log_p, log_q)",
        "F.ctc_loss(log_probs, targets, input_lengths, target_lengths)",
        "F.triplet_margin_loss(anchor, positive, negative)",
        "F.scaled_dot_product_attention(q, k, v)",
        "F.scaled_dot_product_attention(*parts)",
        "F.scaled_dot_product_attention(x, x, x)",
        "Normal(mean, std)",
        "Normal(0, 1)",
        "Normal(a, b)",
        "f(v, k, q)",
    ],
)
def test_arguments_in_their_order_and_such_without_a_name_are_none(code):
    assert found_in(code, swapped_arguments) == []


@pytest.mark.parametrize(
    ("made", "call", "count"),
    [
        ("criterion = nn.TripletMarginLoss(0.3)", "criterion(anchor, negative, positive)", 1),
        ("criterion = nn.TripletMarginLoss(0.3)", "criterion(anchor, positive, negative)", 0),
        ("self.loss = nn.BCELoss()", "self.loss(labels, pred)", 1),
        ("loss = nn.KLDivLoss(log_target=True)", "loss(teacher_prob, log_p)", 0),
        ("criterion = nn.MSELoss()", "criterion(labels, pred)", 0),
    ],
)
def test_losses_that_are_objects_have_the_order_of_their_functions(made, call, count):
    assert len(found_in(f"{made}\n{call}", swapped_arguments)) == count


@pytest.mark.parametrize(("order", "count"), [("a, q, p", 1), ("a, p, q", 0)])
@pytest.mark.parametrize("again", ["pass", "q = q[:9]"])
def test_a_name_that_says_nothing_has_that_of_what_it_was_made_of(order, count, again):
    code = f"""
def loss(net, anchor, positive, negative):
    a, p, q = net(anchor), net(positive), net(negative)
    {again}
    return F.triplet_margin_loss({order})
"""
    assert len(found_in(code, swapped_arguments)) == count * (again == "pass")
