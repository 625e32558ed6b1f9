"""All that is known of a loss."""

from taiyi_fx.findings import LossFacts, LossGraph
from tests.findings.given import evidence, knowing


def test_each_loss_has_its_own_facts_and_one_of_which_nothing_is_known_has_none():
    known = evidence({("", "loss"): 1.0, ("", "kl_loss"): 1.0})
    known = knowing(known, classes={"loss": 10}, loss_graphs={"loss": LossGraph(copied="fc")})
    of_loss, of_other = map(known.logged.of_loss, known.logged.losses)
    assert of_loss == LossFacts(graph=LossGraph(copied="fc"), classes=10)
    assert of_other == LossFacts()
    assert [(loss.quantity, graph.copied) for loss, graph in known.logged.graphs] == [
        ("loss", "fc")
    ]
