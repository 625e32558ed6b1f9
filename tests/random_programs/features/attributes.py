"""What a forward reads: attributes, globals, defaults, closures, class attributes."""

from tests.random_programs.feature import Feature

NUMBERS = ("3.0", "-0.0", "0.0", "True", "1", "torch.tensor(2.0)", "float('nan')")


def numbers(*places: str) -> tuple[str, ...]:
    return tuple(f"{place} = {value}" for place in places for value in NUMBERS)


FEATURES = [
    Feature(
        "number attribute",
        "x = x * self.gain_N",
        init="self.gain_N = <<2.0|0.0|1|True>>",
        changes=numbers("SELF.gain_N"),
    ),
    Feature(
        "attribute added",
        "x = x + self.shift_N",
        init="self.shift_N = <<0.0|1.0|-0.0>>",
        changes=numbers("SELF.shift_N"),
    ),
    Feature(
        "None attribute",
        "if self.shift_N is not None:\n    x = x + self.shift_N",
        init="self.shift_N = None",
        changes=(
            "SELF.shift_N = torch.ones(4)",
            "SELF.shift_N = nn.Parameter(torch.ones(4))",
            "SELF.shift_N = 1.0",
        ),
    ),
    Feature(
        "truth of an attribute",
        "if self.flag_N:\n    x = x * 2",
        init="self.flag_N = <<True|False|None|1|''|[]>>",
        changes=("SELF.flag_N = True", "SELF.flag_N = 0", "SELF.flag_N = [1]", "SELF.flag_N = 'a'"),
    ),
    Feature(
        "attribute by exists",
        "x = x + self.extra_N if exists(self.extra_N) else x - 1",
        init="self.extra_N = <<None|0.5>>",
        top="def exists(v):\n    return v is not None",
        changes=("SELF.extra_N = None", "SELF.extra_N = 2.0", "SELF.extra_N = torch.ones(4)"),
    ),
    Feature(
        "attribute by default()",
        "x = x * default(self.extra_N, 2.0)",
        init="self.extra_N = <<None|0.5>>",
        top="def exists(v):\n    return v is not None\n\n\n"
        "def default(v, d):\n    return v if exists(v) else d",
        changes=("SELF.extra_N = None", "SELF.extra_N = -0.0", "SELF.extra_N = torch.ones(4)"),
    ),
    Feature(
        "global number",
        "x = x * SCALE_N",
        top="SCALE_N = <<2.0|0.0|1>>",
        changes=numbers("G.SCALE_N"),
    ),
    Feature(
        "global in a helper",
        "x = scaled_N(x)",
        top="SCALE_N = 2.0\n\n\ndef scaled_N(x):\n    return x * SCALE_N",
        changes=(*numbers("G.SCALE_N"), "G.scaled_N = torch.tanh"),
    ),
    Feature(
        "global in a helper of a helper",
        "x = outer_N(x)",
        top="SCALE_N = 2.0\n\n\ndef inner_N(x):\n    return x * SCALE_N\n\n\n"
        "def outer_N(x):\n    return inner_N(x) + 1",
        changes=(
            "G.SCALE_N = -0.0",
            "G.inner_N = torch.tanh",
            "G.inner_N.__code__ = (lambda x: x * 7).__code__",
        ),
    ),
    Feature(
        "class attribute",
        "x = x * <<self|CLS|type(self)|self.__class__>>.rate_N",
        body="rate_N = <<2.0|0.0>>",
        changes=numbers("G.CLS.rate_N", "SELF.rate_N"),
    ),
    Feature(
        "object attribute",
        "x = x * self.config_N.scale",
        init="self.config_N = Config_N()",
        top="class Config_N:\n    scale = 2.0\n\n    def __init__(self):\n        self.shift = 0.0",
        changes=(
            *numbers("SELF.config_N.scale", "G.Config_N.scale"),
            "SELF.config_N = G.Config_N()",
        ),
    ),
    Feature(
        "slots object",
        "x = x * self.config_N.scale",
        init="self.config_N = Slots_N(2.0)",
        top="class Slots_N:\n    __slots__ = ('scale',)\n\n"
        "    def __init__(self, scale):\n        self.scale = scale",
        changes=numbers("SELF.config_N.scale"),
    ),
    Feature(
        "dataclass",
        "x = x * self.config_N.scale",
        init="self.config_N = Data_N()",
        top="@dataclasses.dataclass\nclass Data_N:\n    scale: float = 2.0",
        changes=numbers("SELF.config_N.scale"),
    ),
    Feature(
        "dict attribute",
        "x = x * self.options_N<<['scale']|.get('scale', 1.0)>>",
        init="self.options_N = {'scale': 2.0}",
        changes=(
            *numbers("SELF.options_N['scale']"),
            "SELF.options_N = {'scale': 5.0}",
            "SELF.options_N.clear()",
        ),
    ),
    Feature(
        "list attribute",
        "for k in self.weights_N:\n    x = x * k",
        init="self.weights_N = [1.0, 2.0]",
        changes=(
            "SELF.weights_N.append(3.0)",
            "SELF.weights_N[0] = -0.0",
            "SELF.weights_N.clear()",
        ),
    ),
    Feature(
        "closure",
        "x = self.act_N(x)",
        init="self.act_N = make_act_N(2.0)",
        top="def make_act_N(k):\n    def act(x):\n        return x * k\n\n    return act",
        changes=(
            "SELF.act_N.__closure__[0].cell_contents = 5.0",
            "SELF.act_N.__closure__[0].cell_contents = -0.0",
        ),
    ),
    Feature(
        "closure of forward's class",
        "x = x * self.cell_N()",
        init="k = <<2.0|[2.0]>>\nself.cell_N = lambda: k if isinstance(k, float) else k[0]",
        changes=("SELF.cell_N.__closure__[0].cell_contents = 5.0",),
    ),
    Feature(
        "default number",
        "x = scaled_N(x)",
        top="def scaled_N(x, k=2.0):\n    return x * k",
        changes=("G.scaled_N.__defaults__ = (3.0,)", "G.scaled_N.__defaults__ = (-0.0,)"),
    ),
    Feature(
        "keyword default",
        "x = scaled_N(x)",
        top="def scaled_N(x, *, k=2.0):\n    return x * k",
        changes=("G.scaled_N.__kwdefaults__['k'] = 3.0", "G.scaled_N.__kwdefaults__ = {'k': -0.0}"),
    ),
    Feature(
        "default global list",
        "x = scaled_N(x)",
        top="KEPT_N = [2.0]\n\n\ndef scaled_N(x, k=KEPT_N):\n    return x * k[0]",
        changes=("G.KEPT_N[0] = 3.0", "G.KEPT_N[0] = -0.0", "G.KEPT_N.insert(0, 5.0)"),
    ),
    Feature(
        "default mutable",
        "x = counted_N(x)",
        top="def counted_N(x, seen=[]):\n    seen.append(1)\n    return x * len(seen)",
        changes=("G.counted_N.__defaults__[0].clear()",),
    ),
    Feature(
        "forward's default list",
        "x = x * gain_N[0]",
        top="GAINS_N = [2.0]",
        parameter="gain_N=GAINS_N",
        changes=("G.GAINS_N[0] = 3.0", "G.GAINS_N[0] = -0.0"),
    ),
    Feature(
        "forward's default object",
        "x = x * given_N.scale",
        top="class Given_N:\n    scale = 2.0",
        parameter="given_N=Given_N",
        changes=numbers("G.Given_N.scale"),
    ),
    Feature(
        "forward's default number",
        "x = x * gain_N",
        parameter="gain_N=2.0",
        changes=(
            "G.CLS.forward.__kwdefaults__ = {**(G.CLS.forward.__kwdefaults__ or {}), 'gain_N': -0.0}",
        ),
    ),
    Feature(
        "method's default",
        "x = self.scaled_N(x)",
        body="def scaled_N(self, x, k=2.0):\n    return x * k",
        changes=("G.CLS.scaled_N.__defaults__ = (3.0,)", "SELF.scaled_N = torch.tanh"),
    ),
    Feature(
        "static method",
        "x = self.scaled_N(x)",
        body="@staticmethod\ndef scaled_N(x):\n    return x * 2",
        changes=("G.CLS.scaled_N = staticmethod(torch.tanh)", "SELF.scaled_N = torch.tanh"),
    ),
    Feature(
        "class method",
        "x = self.scaled_N(x)",
        body="rate_N = 2.0\n\n@classmethod\ndef scaled_N(cls, x):\n    return x * cls.rate_N",
        changes=numbers("G.CLS.rate_N"),
    ),
    Feature(
        "property",
        "x = x * self.gain_N",
        init="self._gain_N = 2.0",
        body="@property\ndef gain_N(self):\n    self._gain_N += 1\n    return self._gain_N",
    ),
    Feature(
        "__getattr__",
        "x = x * self.magic_N",
        init="self.answers_N = {'magic_N': 2.0}",
        body="def __getattr__(self, name):\n    if name == 'magic_N':\n"
        "        return self.answers_N[name]\n    return super().__getattr__(name)",
        changes=("SELF.answers_N['magic_N'] = 3.0",),
    ),
    Feature(
        "lambda attribute",
        "x = self.act_N(x)",
        init="self.act_N = lambda x: x * SCALE_N",
        top="SCALE_N = 2.0",
        changes=("G.SCALE_N = 3.0", "SELF.act_N = torch.tanh"),
    ),
    Feature(
        "partial attribute",
        "x = self.act_N(x)",
        init="self.act_N = functools.partial(torch.mul, other=2.0)",
        changes=(
            "SELF.act_N = functools.partial(torch.mul, other=3.0)",
            "SELF.act_N.keywords['other'] = 5.0",
        ),
    ),
    Feature(
        "name of a function",
        "x = getattr(torch, self.kind_N)(x)",
        init="self.kind_N = <<'relu'|'tanh'|'sigmoid'>>",
        changes=("SELF.kind_N = 'tanh'", "SELF.kind_N = 'neg'"),
    ),
    Feature(
        "dict of functions",
        "x = ACTS_N[self.kind_N](x)",
        init="self.kind_N = 'relu'",
        top="ACTS_N = {'relu': F.relu, 'tanh': torch.tanh}",
        changes=("SELF.kind_N = 'tanh'", "G.ACTS_N['relu'] = torch.neg"),
    ),
    Feature("training flag", "if self.training:\n    x = x * 2", changes=("SELF.eval()",)),
    Feature(
        "training flag chosen",
        "x = x * (2 if self.training else 3)",
        changes=("SELF.train(False)",),
    ),
    Feature(
        "tensor attribute",
        "x = x * self.mask_N",
        init="self.mask_N = torch.tensor([1.0, 0.0, 1.0, 2.0])",
        changes=(
            "SELF.mask_N = torch.zeros(4)",
            "SELF.mask_N.mul_(2)",
            "SELF.mask_N = SELF.mask_N.clone()",
            "SELF.mask_N = nn.Parameter(torch.ones(4))",
            "SELF.mask_N = 2.0",
        ),
    ),
    Feature(
        "global tensor",
        "x = x + TABLE_N",
        top="TABLE_N = torch.linspace(0, 1, 4)",
        changes=("G.TABLE_N = torch.ones(4)", "G.TABLE_N.mul_(3)", "G.TABLE_N = G.TABLE_N.clone()"),
    ),
    Feature(
        "class tensor",
        "x = x + self.table_N",
        body="table_N = torch.linspace(0, 1, 4)",
        changes=(
            "G.CLS.table_N = torch.ones(4)",
            "G.CLS.table_N.mul_(3)",
            "SELF.table_N = torch.ones(4)",
        ),
    ),
    Feature(
        "numpy array attribute",
        "x = x * torch.from_numpy(self.table_N)",
        init="self.table_N = np.ones(4, 'float32')",
        changes=("SELF.table_N[0] = 3.0", "SELF.table_N = np.zeros(4, 'float32')"),
    ),
    Feature(
        "numpy scalar attribute",
        "x = x * float(self.gain_N)",
        init="self.gain_N = np.float64(2.0)",
        changes=("SELF.gain_N = np.float64(-0.0)", "SELF.gain_N = 3"),
    ),
    Feature(
        "import of the module's own global",
        "from THIS_MODULE import SCALE_N\n\nx = x * SCALE_N",
        top="SCALE_N = 2.0",
        changes=numbers("G.SCALE_N"),
    ),
    Feature("import in forward", "import math\n\nx = x * math.sqrt(4.0)"),
    Feature(
        "global by sys.modules",
        "x = x * sys.modules[__name__].SCALE_N",
        top="SCALE_N = 2.0",
        changes=numbers("G.SCALE_N"),
    ),
    Feature(
        "globals()",
        "x = x * globals()['SCALE_N']",
        top="SCALE_N = 2.0",
        changes=numbers("G.SCALE_N"),
    ),
    Feature(
        "getattr with a default",
        "x = x * getattr(self, 'gain_N', 1.0)",
        changes=("SELF.gain_N = 3.0", "G.CLS.gain_N = 2.0"),
    ),
    Feature(
        "hasattr",
        "if hasattr(self, 'gain_N'):\n    x = x * self.gain_N",
        changes=("SELF.gain_N = 3.0", "SELF.gain_N = nn.Parameter(torch.ones(4))"),
    ),
    Feature(
        "attribute of a part",
        "x = x * self.inner_N.factor + self.inner_N(x)",
        init="self.inner_N = nn.Linear(4, 4)\nself.inner_N.factor = 2.0",
        changes=("SELF.inner_N.factor = -0.0", "SELF.inner_N.factor = 3.0"),
    ),
    Feature(
        "identity of two attributes",
        "x = x * 2 if self.one_N is self.other_N else x * 3",
        init="self.one_N = self.other_N = <<[]|nn.Identity()|torch.ones(1)>>",
        changes=("SELF.one_N = <<nn.Identity()|nn.ReLU()>>",),
    ),
    Feature(
        "isinstance of an attribute",
        "x = x * 2 if isinstance(self.act_N, nn.ReLU) else self.act_N(x)",
        init="self.act_N = <<nn.ReLU()|nn.Tanh()>>",
        changes=("SELF.act_N = nn.Sigmoid()", "SELF.act_N.__class__ = nn.Sigmoid"),
    ),
]
