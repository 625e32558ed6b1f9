"""What stands around other statements: conditions, loops, contexts, exceptions, decorators."""

from tests.random_programs.feature import Feature

COUNTED = (
    "def counted_N(f):\n    @functools.wraps(f)\n    def run(self, *args, **kwargs):\n        self.calls_N = getattr(self, 'calls_N', 0) + 1\n"
    "        return f(self, *args, **kwargs)\n\n    return run"
)
FEATURES = [
    Feature(
        "if attribute",
        "if self.flag_N:\n    BODY",
        init="self.flag_N = <<True|False>>",
        changes=(
            "SELF.flag_N = True",
            "SELF.flag_N = False",
            "SELF.flag_N = 2",
            "SELF.flag_N = None",
        ),
    ),
    Feature("if training", "if self.training:\n    BODY", changes=("SELF.eval()", "SELF.train()")),
    Feature("if not training", "if not self.training:\n    BODY"),
    Feature(
        "if global", "if FLAG_N:\n    BODY", top="FLAG_N = True", changes=("G.FLAG_N = False",)
    ),
    Feature("if mask", "if mask is not None:\n    BODY"),
    Feature(
        "if exists(mask)",
        "if exists(mask):\n    BODY",
        top="def exists(v):\n    return v is not None",
    ),
    Feature("if size", "if x.shape[0] <<> 2|== 3|% 2>>:\n    BODY"),
    Feature("if tensor", "if x.mean() > 0:\n    BODY"),
    Feature("if random", "if random.random() < 0.5:\n    BODY"),
    Feature(
        "if counter",
        "self.n_N += 1\nif self.n_N % 2:\n    BODY",
        init="self.n_N = 0",
        changes=("SELF.n_N = 1",),
    ),
    Feature("for range", "for _ in range(2):\n    BODY"),
    Feature(
        "for attribute",
        "for i_N in range(self.depth_N):\n    BODY",
        init="self.depth_N = 2",
        changes=("SELF.depth_N = 1", "SELF.depth_N = 0", "SELF.depth_N = True"),
    ),
    Feature(
        "for break",
        "for i in range(3):\n    if i == self.stop_N:\n        break\n    BODY",
        init="self.stop_N = 1",
        changes=("SELF.stop_N = 2", "SELF.stop_N = 0"),
    ),
    Feature("while counter", "i_N = 0\nwhile i_N < 2:\n    i_N += 1\n    BODY"),
    Feature(
        "try except",
        "try:\n    BODY\n    if x.shape[0] > 2:\n        raise ValueError('large')\nexcept ValueError as error:\n    self.error_N = str(error)\n    x = x * 2",
    ),
    Feature("try any", "try:\n    x = x @ torch.ones(3)\nexcept Exception:\n    BODY"),
    Feature("try finally", "try:\n    BODY\nfinally:\n    self.n_N += 1", init="self.n_N = 0"),
    Feature(
        "try AttributeError",
        "try:\n    x = x * self.not_there_N\nexcept AttributeError:\n    BODY",
        changes=("SELF.not_there_N = 2.0", "G.CLS.not_there_N = 3.0"),
    ),
    Feature(
        "suppress", "with contextlib.suppress(RuntimeError):\n    BODY\n    x = x @ torch.ones(3)"
    ),
    Feature("no_grad", "with torch.no_grad():\n    BODY"),
    Feature("enable_grad", "with torch.enable_grad():\n    BODY"),
    Feature(
        "set_grad_enabled",
        "with torch.set_grad_enabled(self.grad_N):\n    BODY",
        init="self.grad_N = True",
        changes=("SELF.grad_N = False",),
    ),
    Feature("inference_mode", "with torch.inference_mode():\n    y = x * 2\nBODY"),
    Feature(
        "autocast", "with torch.autocast('cpu', dtype=torch.bfloat16):\n    BODY\nx = x.float()"
    ),
    Feature("autocast off", "with torch.autocast('cpu', enabled=False):\n    BODY"),
    Feature("fork_rng", "with torch.random.fork_rng():\n    BODY"),
    Feature(
        "own context",
        "with scope_N(self):\n    BODY",
        top="@contextlib.contextmanager\ndef scope_N(of):\n    of.inside_N = True\n    try:\n        yield\n    finally:\n        of.inside_N = False",
    ),
    Feature("record_function", "with torch.profiler.record_function('here'):\n    BODY"),
    Feature(
        "exit stack",
        "with contextlib.ExitStack() as stack:\n    stack.callback(setattr, self, 'left_N', True)\n    BODY",
    ),
    Feature("catch_warnings", "with warnings.catch_warnings():\n    BODY"),
    Feature(
        "default dtype",
        "torch.set_default_dtype(torch.float64)\ntry:\n    x = x + torch.ones(4).float()\nfinally:\n    torch.set_default_dtype(torch.float32)\nBODY",
    ),
    Feature("early return by size", "if x.shape[0] > 2:\n    RETURN\nBODY"),
    Feature(
        "early return by attribute",
        "if self.stop_N:\n    RETURN\nBODY",
        init="self.stop_N = False",
        changes=("SELF.stop_N = True",),
    ),
    Feature("early return in evaluation", "if not self.training:\n    RETURN\nBODY"),
    Feature(
        "early return by counter",
        "self.n_N += 1\nif self.n_N > 2:\n    RETURN\nBODY",
        init="self.n_N = 0",
    ),
    Feature("raise by size", "if x.shape[0] == 4:\n    raise ValueError(f'no {x.shape[0]}')\nBODY"),
    Feature(
        "raise by attribute",
        "if self.broken_N:\n    raise KeyError('broken')\nBODY",
        init="self.broken_N = False",
        changes=("SELF.broken_N = True",),
    ),
    Feature(
        "raise after a side effect",
        "self.n_N += 1\nBODY\nif x.shape[0] == 4:\n    raise RuntimeError('four')",
        init="self.n_N = 0",
    ),
    Feature("assert", "assert x.shape[0] != 4, 'four'\nBODY"),
    Feature("inner function", "def inner_N(x):\n    BODY\n    return x\n\nx = inner_N(x)"),
    Feature(
        "else",
        "if self.flag_N:\n    BODY\nelse:\n    x = x * 3",
        init="self.flag_N = True",
        changes=("SELF.flag_N = False",),
    ),
    Feature("counting decorator", "BODY", top=COUNTED, decorator="@counted_N"),
    Feature("grad decorator", "BODY", decorator="@torch.enable_grad()"),
    Feature(
        "autocast decorator",
        "BODY\nx = x.float()",
        decorator="@torch.autocast('cpu', dtype=torch.bfloat16, enabled=<<True|False>>)",
    ),
    Feature(
        "match", "match x.shape[0] % 2:\n    case 0:\n        BODY\n    case _:\n        x = x * 2"
    ),
    Feature(
        "thread",
        "left = []\nthread = threading.Thread(target=lambda: left.append(x.detach() * 2))\nthread.start()\nthread.join()\nx = x + left[0]\nBODY",
    ),
    Feature(
        "reentrant",
        "if getattr(self, 'depth_N', 0) == 0:\n    self.depth_N = 1\n    try:\n        x = x + self.first_N(self(x))\n    finally:\n        self.depth_N = 0\nBODY",
        body="def first_N(self, v):\n    while not isinstance(v, torch.Tensor):\n        v = v['x'] if isinstance(v, dict) else v[0]\n    return v",
    ),
]
