"""Functions, by all the ways that they are reached."""

from tests.random_programs.feature import Feature

RELU = ("patch('torch.nn.functional.relu')",)
FEATURES = [
    Feature(
        "F.relu", "x = F.relu(x)", changes=(*RELU, "G.F = types.SimpleNamespace(relu=torch.tanh)")
    ),
    Feature("torch.tanh", "x = torch.tanh(x)", changes=("patch('torch.tanh')",)),
    Feature(
        "torch.nn.functional.gelu",
        "x = torch.nn.functional.gelu(x)",
        changes=("patch('torch.nn.functional.gelu')",),
    ),
    Feature(
        "from import",
        "x = gelu(x)",
        top="from torch.nn.functional import gelu",
        changes=("G.gelu = torch.tanh", "patch('torch.nn.functional.gelu')"),
    ),
    Feature(
        "import as",
        "x = fn.silu(x)",
        top="import torch.nn.functional as fn",
        changes=("patch('torch.nn.functional.silu')",),
    ),
    Feature(
        "import of a function in forward",
        "from torch.nn.functional import silu\n\nx = silu(x)",
        changes=("patch('torch.nn.functional.silu')",),
    ),
    Feature(
        "function attribute",
        "x = self.act_N(x)",
        init="self.act_N = <<F.relu|torch.tanh|F.gelu|torch.sigmoid>>",
        changes=(
            "SELF.act_N = torch.tanh",
            "SELF.act_N = nn.Tanh()",
            "SELF.act_N = lambda x: x * 7",
            *RELU,
        ),
    ),
    Feature(
        "function on the class",
        "x = self.act_N(x)",
        body="act_N = staticmethod(<<F.relu|torch.tanh>>)",
        changes=("G.CLS.act_N = staticmethod(torch.sigmoid)",),
    ),
    Feature(
        "builtin on the class",
        "x = self.act_N(x)",
        body="act_N = <<torch.tanh|torch.sigmoid>>",
        changes=("G.CLS.act_N = torch.sigmoid",),
    ),
    Feature(
        "function in a list",
        "for f in self.fs_N:\n    x = f(x)",
        init="self.fs_N = [F.relu, torch.tanh]",
        changes=("SELF.fs_N.append(torch.sigmoid)", "SELF.fs_N[0] = torch.neg"),
    ),
    Feature(
        "global function", "x = act_N(x)", top="act_N = F.relu", changes=("G.act_N = torch.tanh",)
    ),
    Feature(
        "own function",
        "x = act_N(x)",
        top="def act_N(x):\n    return x * 2",
        changes=(
            "G.act_N = torch.tanh",
            "G.act_N = lambda x: x * 9",
            "G.act_N.__code__ = (lambda x: x * 7).__code__",
        ),
    ),
    Feature(
        "decorated function",
        "x = act_N(x)",
        top="def twice_N(f):\n    @functools.wraps(f)\n    def run(x):\n        return f(f(x))\n\n    return run\n\n\n"
        "@twice_N\ndef act_N(x):\n    return x * 2",
    ),
    Feature(
        "attention patched",
        "x = F.scaled_dot_product_attention(self.fc_N(x)[None], x[None], x[None])[0]",
        init="self.fc_N = nn.Linear(4, 4)",
        changes=("patch('torch.nn.functional.scaled_dot_product_attention')",),
    ),
    Feature(
        "Tensor method",
        "x = x.<<relu()|tanh()|sigmoid()|abs()>>",
        changes=("patch('torch.Tensor.relu')", "patch('torch.Tensor.tanh')"),
    ),
    Feature("operator", "x = operator.<<add|mul>>(x, x)"),
    Feature("sum()", "x = sum([x, x * 2])"),
    Feature("max of sizes", "x = x * max(x.shape[0], 2)"),
    Feature("map", "x = torch.stack(list(map(self.fc_N, x)))", init="self.fc_N = nn.Linear(4, 4)"),
    Feature("lambda in forward", "x = (lambda v: v * 2)(x)"),
    Feature(
        "function in forward",
        "def scaled(v, k=self.k_N):\n    return v * k\n\nx = scaled(x)",
        init="self.k_N = 2.0",
        changes=("SELF.k_N = -0.0", "SELF.k_N = 3.0"),
    ),
    Feature(
        "own method",
        "x = self.scaled_N(x)",
        init="self.k_N = 2.0",
        body="def scaled_N(self, x):\n    return x * self.k_N",
        changes=(
            "SELF.k_N = 3.0",
            "G.CLS.scaled_N = lambda self, x: x * 5",
            "SELF.scaled_N = torch.tanh",
        ),
    ),
    Feature(
        "own method with an option",
        "x = self.scaled_N(x<<|, mask|, shift=mask>>)",
        body="def scaled_N(self, x, shift=None):\n    return x * 2 if shift is None else x + shift",
    ),
    Feature("super", "x = x + super().__dir__().count('training')"),
    Feature(
        "inherited method",
        "x = self.extra_repr and self.scaled_N(x)",
        body="def scaled_N(self, x):\n    return x * 2",
    ),
    Feature(
        "compiled helper",
        "x = scripted_N(x)",
        top="@torch.jit.ignore\ndef scripted_N(x):\n    return x * 2",
    ),
    Feature("rearranged", "x = x.unsqueeze(0).transpose(0, 1).reshape(-1, 4)"),
    Feature(
        "recursion",
        "x = down_N(x, self.depth_N)",
        init="self.depth_N = 2",
        top="def down_N(x, n):\n    return x if n == 0 else down_N(x * 2, n - 1)",
        changes=("SELF.depth_N = 1", "SELF.depth_N = 0"),
    ),
    Feature(
        "generator function",
        "for y in halves_N(x):\n    x = x + y.sum()",
        top="def halves_N(x):\n    yield x[:, :2]\n    yield x[:, 2:]",
    ),
    Feature(
        "eval()", "x = x * eval('self.k_N')", init="self.k_N = 2.0", changes=("SELF.k_N = 3.0",)
    ),
    Feature("locals()", "x = locals()['x'] * 2"),
    Feature("walrus", "x = y if (y := x * 2) is not None else x"),
    Feature("chained comparison", "x = x * (2 if 0 < x.shape[0] < 3 else 3)"),
    Feature(
        "f-string key",
        "x = x * self.table_N[f'{x.shape[0] > 2}']",
        init="self.table_N = {'True': 2.0, 'False': 3.0}",
        changes=("SELF.table_N['True'] = -0.0",),
    ),
    Feature("star unpacking", "a, *rest = x.unbind(1)\nx = torch.stack([*rest, a], 1)"),
    Feature("constant", "x = x * <<2|0.0|-0.0|1e-3|True>>"),
]
