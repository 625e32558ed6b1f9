"""Random numbers: torch's, Python's, numpy's, and generators of the model's own."""

from tests.random_programs.feature import Feature

FEATURES = [
    Feature("random.random", "x = x * random.random()"),
    Feature("random.choice", "x = x * random.choice([1.0, 2.0, 3.0])"),
    Feature("random.random unread", "random.random()"),
    Feature("np.random.rand", "x = x * float(np.random.<<rand|normal|random>>())"),
    Feature("torch.rand", "x = x * torch.rand(<<()|4|x.shape>>)"),
    Feature("torch.randn_like", "x = x + torch.<<randn_like|rand_like>>(x)"),
    Feature("torch.bernoulli", "x = x * torch.bernoulli(torch.full_like(x, 0.5))"),
    Feature("torch draw unread", "torch.rand(1)"),
    Feature("tensor drawn in place", "x = x + torch.empty_like(x).<<normal_|uniform_>>()"),
    Feature(
        "own Random",
        "x = x * self.rng_N.random()",
        init="self.rng_N = random.Random(0)",
        changes=("SELF.rng_N.seed(5)", "SELF.rng_N = random.Random(2)", "SELF.rng_N.random()"),
    ),
    Feature(
        "bound draw of a Random",
        "x = x * self.draw_N()",
        init="self.draw_N = random.Random(0).random",
        changes=("SELF.draw_N = random.Random(2).random", "SELF.draw_N()"),
    ),
    Feature(
        "bound method of a Random",
        "x = x * self.draw_N(1.0, 2.0)",
        init="self.draw_N = random.Random(0).uniform",
    ),
    Feature(
        "numpy generator",
        "x = x * float(self.rng_N.<<random|normal>>())",
        init="self.rng_N = np.random.default_rng(0)",
        changes=("SELF.rng_N = np.random.default_rng(1)", "SELF.rng_N.random()"),
    ),
    Feature(
        "bound draw of a numpy generator",
        "x = x * self.draw_N()",
        init="self.draw_N = np.random.default_rng(0).random",
    ),
    Feature(
        "numpy RandomState",
        "x = x * self.rng_N.rand()",
        init="self.rng_N = np.random.RandomState(0)",
    ),
    Feature(
        "torch generator",
        "x = x * torch.rand(4, generator=self.gen_N)",
        init="self.gen_N = torch.Generator().manual_seed(0)",
        changes=("SELF.gen_N.manual_seed(4)",),
    ),
    Feature(
        "global Random",
        "x = x * RNG_N.random()",
        top="RNG_N = random.Random(0)",
        changes=("G.RNG_N.seed(5)", "G.RNG_N = random.Random(9)"),
    ),
    Feature("class's Random", "x = x * self.rng_N.random()", body="rng_N = random.Random(0)"),
    Feature(
        "Random in a default",
        "x = jitter_N(x)",
        top="def jitter_N(x, draw=random.Random(1).random):\n    return x * draw()",
    ),
    Feature(
        "Random in a closure",
        "x = self.jitter_N(x)",
        init="rng = random.Random(3)\nself.jitter_N = lambda x: x * rng.random()",
    ),
    Feature("global bound draw", "x = x * draw_N()", top="draw_N = random.Random(0).random"),
    Feature("imported draw", "x = x * uniform(1.0, 2.0)", top="from random import uniform"),
    Feature(
        "dropout",
        "x = self.drop_N(x)",
        init="self.drop_N = nn.Dropout(<<0.5|0.1|0.0>>)",
        changes=(
            "SELF.drop_N.p = 0.9",
            "SELF.drop_N.p = 0.0",
            "SELF.drop_N.eval()",
            "SELF.drop_N.inplace = True",
        ),
    ),
    Feature(
        "F.dropout",
        "x = F.dropout(x, 0.5<<|, self.training|, training=self.training>>)",
        changes=("SELF.eval()",),
    ),
    Feature(
        "dropout's p as an attribute",
        "x = F.dropout(x, self.p_N, self.training)",
        init="self.p_N = 0.5",
        changes=("SELF.p_N = 0.1", "SELF.p_N = 0"),
    ),
    Feature(
        "unregistered dropout",
        "x = self.held_N[0](x)",
        init="self.held_N = [nn.Dropout(0.5)]",
        changes=("SELF.held_N[0].eval()", "SELF.held_N[0].p = 0.1"),
    ),
    # Not F.rrelu: in a checkpoint torch itself computes its gradient of memory that nobody wrote.
    Feature("uniform_", "x = x + torch.empty_like(x).uniform_(-0.1, 0.1)"),
    Feature(
        "layer drop",
        "if torch.rand(()) < 0.5:\n    x = self.fc_N(x)",
        init="self.fc_N = nn.Linear(4, 4)",
    ),
    Feature(
        "layer drop by random",
        "if random.random() < self.p_N:\n    x = self.fc_N(x)",
        init="self.fc_N = nn.Linear(4, 4)\nself.p_N = 0.5",
        changes=("SELF.p_N = 1.0", "SELF.p_N = 0.0"),
    ),
    Feature(
        "layer drop while training",
        "if not self.training or random.random() < 0.5:\n    x = self.fc_N(x)",
        init="self.fc_N = nn.Linear(4, 4)",
    ),
    Feature(
        "order shuffled",
        "random.shuffle(self.order_N)\nfor i in self.order_N:\n    x = self.fcs_N[i](x)",
        init="self.fcs_N = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))\nself.order_N = [0, 1]",
    ),
    Feature(
        "seeded in forward",
        "torch.manual_seed(self.seed_N)\nx = x + torch.rand(4)",
        init="self.seed_N = 3",
        changes=("SELF.seed_N = 4",),
    ),
    Feature("random seeded in forward", "random.seed(<<3|x.shape[0]>>)\nx = x * random.random()"),
    Feature(
        "state kept and put back",
        "state = torch.get_rng_state()\ny = torch.rand(4)\ntorch.set_rng_state(state)\nx = x * y",
    ),
    Feature("torch.randperm", "x = x[:, torch.randperm(4)]"),
    Feature("noise while training", "if self.training:\n    x = x + 0.1 * torch.randn_like(x)"),
    Feature("np shuffled", "x = x[:, np.random.permutation(4)]"),
]
