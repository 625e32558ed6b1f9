"""What is done with tensors: in place, converted, asked about, hooked, differentiated."""

from tests.random_programs.feature import Feature

FC = "self.fc_N = nn.Linear(4, 4)"
FEATURES = [
    Feature("added in place", "x = x * 1\nx += <<1|x|0.5>>"),
    Feature("in place on what came in", "x <<+=|*=|-=>> 2"),
    Feature(
        "method in place",
        "x = self.fc_N(x)\nx.<<mul_(2)|relu_()|tanh_()|add_(1)|neg_()|clamp_(-1, 1)>>",
        init=FC,
    ),
    Feature("result of a method in place", "x = self.fc_N(x).<<mul_(2)|relu_()|add_(1)>>", init=FC),
    Feature("function in place", "x = F.relu(self.fc_N(x), inplace=True)", init=FC),
    Feature("F.relu_", "x = F.relu_(self.fc_N(x))", init=FC),
    Feature("column set", "x = x.clone()\nx[:, 0] = <<0|1.0|x[:, 1]>>"),
    Feature("column set on what came in", "x[:, 0] = <<0|1.0>>"),
    Feature("view changed", "x = x * 1\nv = x[:, :2]\nv <<*=|+=>> 2"),
    Feature("output of a part changed", "y = self.fc_N(x)\ny[:, 1:] *= 2\nx = y + y", init=FC),
    Feature(
        "input of a part changed after it",
        "y = self.act_N(x)\nx = x + 0\nx += 1\nx = x + y",
        init="self.act_N = nn.<<ReLU|Tanh|Sigmoid|Identity>>()",
    ),
    Feature(
        "part in place",
        "x = self.act_N(self.fc_N(x))",
        init=FC + "\nself.act_N = nn.<<ReLU|LeakyReLU|ELU>>(inplace=True)",
        changes=("SELF.act_N.inplace = False", "SELF.act_N = nn.Tanh()"),
    ),
    Feature("residual in place", "y = self.fc_N(x)\ny += x\nx = y", init=FC),
    Feature(
        "kept and changed in place", "self.kept_N = self.fc_N(x)\nx = self.kept_N.mul_(2)", init=FC
    ),
    Feature("no_grad in place", "with torch.no_grad():\n    x.mul_(2)"),
    Feature("data changed", "x = x * 1\nx.data.mul_(2)"),
    Feature("set_", "y = x.detach()\ny.resize_(x.shape)\nx = x + y"),
    Feature(
        "item",
        "x = x * <<x.mean().item()|float(x.sum())|x.detach().numpy().mean().item()|x.tolist()[0][0]>>",
    ),
    Feature("truth of a tensor", "if x.sum() > 0:\n    x = x * 2"),
    Feature("bool of a tensor in and/or", "x = x * (2 if (x > 0).any() and self.training else 3)"),
    Feature("while a tensor is large", "while 2 < x.abs().max() < float('inf'):\n    x = x / 2"),
    Feature("range over a size", "for i in range(x.shape[0]):\n    x = x + i"),
    Feature("size in arithmetic", "x = x * <<x.shape[0]|x.size(0)|len(x)|x.numel()|x.ndim>> / 4"),
    Feature("size in a condition", "if x.shape[0] > 2:\n    x = x * 2"),
    Feature("iteration over a tensor", "x = torch.stack([row * i for i, row in enumerate(x)])"),
    Feature("unpacked", "a, b = x.chunk(2, -1)\nx = torch.cat([b, a], -1)"),
    Feature("isinstance", "if isinstance(x, torch.Tensor):\n    x = x * 2"),
    Feature("type()", "if type(x) is torch.Tensor:\n    x = x * 2"),
    Feature("x is None", "x = x * 2 if x is not None else None"),
    Feature(
        "exists(x)", "x = x * 2 if exists(x) else x", top="def exists(v):\n    return v is not None"
    ),
    Feature("dtype asked", "x = x.to(self.fc_N.weight.dtype)\nx = self.fc_N(x)", init=FC),
    Feature("requires_grad asked", "if x.requires_grad:\n    x = x * 2"),
    Feature("grad mode asked", "x = x * (2 if torch.is_grad_enabled() else 3)"),
    Feature("leaf asked", "x = x * (2 if x.is_leaf else 3)"),
    Feature(
        "gradient asked", "x = self.fc_N(x) * (2 if self.fc_N.weight.grad is None else 3)", init=FC
    ),
    Feature("contiguity asked", "x = x * (2 if x.is_contiguous() else 3)"),
    Feature("strides", "x = x.t().contiguous().t()"),
    Feature("strides of a transposed product", "x = (x.t() * 2).t()"),
    Feature("strides of a slice", "x = torch.cat([x, x], -1)[:, ::2]"),
    Feature("expanded", "x = x[:, :1].expand(-1, 4)"),
    Feature(
        "identity of tensors",
        "y = self.act_N(x)\nx = x * 2 if y is x else y",
        init="self.act_N = nn.<<Identity|ReLU|Dropout>>()",
    ),
    Feature(
        "identity of tensors in a helper",
        "x = same_N(x, self.act_N(x))",
        init="self.act_N = nn.<<Identity|ReLU>>()",
        top="def same_N(a, b):\n    return a * 2 if a is b else b",
    ),
    Feature("version asked", "x = x * (1 + x._version)"),
    Feature("tensor's attribute", "x = x * 1\nx.note = 2.0\nx = self.fc_N(x) * x.note", init=FC),
    Feature(
        "hook on a tensor",
        "if x.requires_grad:\n    x = x * 1\n    x.register_hook(lambda g: g * 0.5)",
    ),
    Feature(
        "hook that logs",
        "x = self.fc_N(x)\nif x.requires_grad:\n    x.register_hook(self.seen_N.append)",
        init=FC + "\nself.seen_N = []",
    ),
    Feature(
        "hook that reads self",
        "x = self.fc_N(x)\nif x.requires_grad:\n    x.register_hook(lambda g: g * self.k_N)",
        init=FC + "\nself.k_N = 2.0",
        changes=("SELF.k_N = 0.5",),
    ),
    Feature(
        "hook on a parameter",
        "x = self.fc_N(x)",
        init=FC + "\nself.n_N = 0\nself.fc_N.weight.register_hook(self.noted_N)",
        body="def noted_N(self, g):\n    self.n_N += 1\n    return g * self.n_N",
    ),
    Feature(
        "retained gradient", "x = x * 1\nif x.requires_grad:\n    x.retain_grad()\nself.kept_N = x"
    ),
    Feature("detached", "x = x + x.detach()"),
    Feature("stopped gradient", "x = self.fc_N(x)\nx = x.detach()", init=FC),
    Feature(
        "no gradient for a part", "with torch.no_grad():\n    y = self.fc_N(x)\nx = x + y", init=FC
    ),
    Feature(
        "own Function",
        "x = Twice_N.apply(x)",
        top="class Twice_N(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x * 2\n\n    @staticmethod\n"
        "    def backward(ctx, g):\n        (x,) = ctx.saved_tensors\n        return g * 2 + 0 * x",
    ),
    Feature(
        "gradient inside",
        "with torch.enable_grad():\n    y = x.detach().requires_grad_()\n    e = self.fc_N(y).square().sum()\n"
        "    (g,) = torch.autograd.grad(e, y<<|, create_graph=True>>)\nx = x - 0.1 * g",
        init=FC,
    ),
    Feature(
        "backward inside",
        "with torch.enable_grad():\n    self.fc_N(x.detach()).sum().backward()",
        init=FC,
    ),
    Feature(
        "checkpoint",
        "x = checkpoint(self.part_N, x, use_reentrant=False)PICK",
        init="self.part_N = PART()",
        parts=("SELF.part_N",),
    ),
    Feature(
        "checkpointed leaf", "x = checkpoint(self.fc_N, x, use_reentrant=<<False|True>>)", init=FC
    ),
    Feature(
        "functional_call",
        "x = torch.func.functional_call(self.fc_N, {'weight': self.fc_N.weight * 2}, (x,))",
        init=FC,
    ),
    Feature("vmap", "x = torch.vmap(self.fc_N)(x)", init=FC),
    Feature(
        "func.grad",
        "x = x - torch.func.grad(lambda y: self.fc_N(y).square().sum())(x.detach())",
        init=FC,
    ),
    Feature("attention", "x = (F.scaled_dot_product_attention(x[None], x[None], x[None]))[0]"),
    Feature(
        "einsum",
        "x = torch.einsum('bi,ij->bj', x, self.weight_N)",
        init="self.weight_N = nn.Parameter(torch.eye(4))",
        changes=("SELF.weight_N = nn.Parameter(torch.ones(4, 4))",),
    ),
    Feature(
        "mask by exists",
        "if exists(mask):\n    x = x * mask",
        top="def exists(v):\n    return v is not None",
    ),
    Feature(
        "mask by default()",
        "x = x * default(mask, 2.0)",
        top="def exists(v):\n    return v is not None\n\n\n"
        "def default(v, d):\n    return v if exists(v) else d",
    ),
    Feature("mask is None", "x = x if mask is None else x * mask"),
    Feature("mask or", "x = x * (1.0 if mask is None else mask.abs().sum())"),
    Feature(
        "mask by a dict",
        "extra = {'mask': mask}\nx = x if extra.get('mask') is None else x + extra['mask']",
    ),
    Feature(
        "masked_fill",
        "x = x.masked_fill(x < 0, self.low_N)",
        init="self.low_N = 0.0",
        changes=("SELF.low_N = -0.0", "SELF.low_N = 1.0"),
    ),
    Feature(
        "new tensor of a number",
        "x = x * torch.tensor(self.k_N)",
        init="self.k_N = 2.0",
        changes=("SELF.k_N = 3.0", "SELF.k_N = -0.0"),
    ),
    Feature("new tensor like", "x = x + torch.<<ones_like|zeros_like>>(x)"),
    Feature("new tensor filled in place", "y = torch.zeros_like(x)\ny[:, 1] = 1\nx = x + y"),
    Feature("new tensor of a size", "x = x + torch.arange(x.shape[0])[:, None]"),
    Feature("default dtype", "x = x + torch.ones(4, dtype=torch.get_default_dtype())"),
    Feature("out=", "y = torch.empty_like(x)\ntorch.add(x.detach(), 1, out=y)\nx = x + y"),
    Feature(
        "double and back",
        "x = (x.double() * self.k_N).float()",
        init="self.k_N = 2.0",
        changes=("SELF.k_N = 3",),
    ),
    Feature("sum over parameters", "x = x + sum(p.sum() for p in self.parameters())"),
    Feature(
        "norm over named parameters",
        "for name, p in self.named_parameters():\n    x = x + (p.mean() if 'weight' in name else 0)",
    ),
    Feature(
        "linear by hand",
        "x = F.linear(x, self.fc_N.weight, self.fc_N.bias)",
        init="self.fc_N = nn.Linear(4, 4, bias=<<True|False>>)",
        changes=(
            "SELF.fc_N.bias = nn.Parameter(torch.ones(4))",
            "SELF.fc_N.bias = None",
            "SELF.fc_N.weight = nn.Parameter(torch.eye(4))",
        ),
    ),
    Feature(
        "tied weights",
        "x = self.b_N(self.a_N(x))",
        init="self.a_N, self.b_N = nn.Linear(4, 4), nn.Linear(4, 4)\nself.b_N.weight = self.a_N.weight",
        changes=(
            "SELF.b_N.weight = nn.Parameter(SELF.b_N.weight.detach() * 2)",
            "SELF.a_N.weight = nn.Parameter(torch.eye(4))",
            "SELF.b_N.bias = SELF.a_N.bias",
        ),
    ),
    Feature(
        "tied by hand",
        "x = F.linear(self.a_N(x), self.twin_N)",
        init="self.a_N = nn.Linear(4, 4)\nself.twin_N = self.a_N.weight",
        changes=(
            "SELF.twin_N = nn.Parameter(torch.eye(4))",
            "SELF.a_N.weight = nn.Parameter(torch.eye(4))",
        ),
    ),
    Feature("transposed weight", "x = x @ self.fc_N.weight.t() + self.fc_N(x)", init=FC),
    Feature("normalised weight", "x = F.linear(x, F.normalize(self.fc_N.weight))", init=FC),
    Feature(
        "parametrization",
        "x = self.fc_N(x)",
        init="self.fc_N = torch.nn.utils.parametrizations.<<weight_norm|spectral_norm>>(nn.Linear(4, 4))",
    ),
    Feature("deepcopied part", "x = x + copy.deepcopy(self.fc_N)(x)", init=FC),
    Feature("state_dict read", "x = self.fc_N(x) * len(self.state_dict())", init=FC),
]
