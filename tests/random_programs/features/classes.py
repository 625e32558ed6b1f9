"""What classes, their bases and metaclasses answer, how forwards take arguments, and copies."""

from tests.random_programs.feature import Feature

FC = "self.fc_N = nn.Linear(4, 4)"
FEATURES = [
    Feature(
        "descriptor of the class",
        "x = x * self.answer_N",
        top="class Answer_N:\n    asked = 0\n\n    def __get__(self, owner, kind):\n"
        "        Answer_N.asked += 1\n        return 1.0 + Answer_N.asked",
        body="answer_N = Answer_N()",
        changes=("SELF.__dict__['answer_N'] = 3.0", "G.CLS.answer_N = 2.0"),
    ),
    Feature(
        "descriptor of a global class",
        "x = x * Home_N.answer",
        top="class Answer_N:\n    asked = 0\n\n    def __get__(self, owner, kind):\n"
        "        Answer_N.asked += 1\n        return 1.0 + Answer_N.asked\n\n\n"
        "class Home_N:\n    answer = Answer_N()",
        changes=("G.Home_N.answer = -0.0", "G.Home_N.answer = 2.0"),
    ),
    Feature(
        "metaclass that answers",
        "x = x * Home_N.answer * Home_N.other",
        top="class Meta_N(type):\n    asked = 0\n\n    def __getattr__(cls, name):\n"
        "        Meta_N.asked += 1\n        return float(Meta_N.asked)\n\n\n"
        "class Home_N(metaclass=Meta_N):\n    answer = 2.0",
        changes=("G.Home_N.other = 2.0", "G.Home_N.answer = 3.0", "del G.Home_N.answer"),
    ),
    Feature(
        "class attribute of a base",
        "x = x * Derived_N.factor",
        top="class Base_N:\n    factor = <<2.0|0.0|1>>\n\n\nclass Other_N:\n    factor = 5.0\n\n\n"
        "class Derived_N(Base_N):\n    pass",
        changes=(
            "G.Base_N.factor = -0.0",
            "G.Base_N.factor = True",
            "G.Derived_N.factor = 4.0",
            "G.Derived_N.__bases__ = (G.Other_N,)",
        ),
    ),
    Feature(
        "named tuple",
        "p = Point_N(x, y=x * 2)\nx = p.x + p[1]",
        top="Point_N = collections.namedtuple('Point_N', 'x y')",
        changes=("G.Point_N = collections.namedtuple('Point_N', 'y x')",),
    ),
    Feature(
        "tuple made in a way of its own",
        "x = Pair_N(x)[0]",
        top="class Pair_N(tuple):\n    _fields = ('x',)\n    made = 0\n\n    def __new__(cls, x):\n"
        "        Pair_N.made += 1\n        return tuple.__new__(cls, (x * Pair_N.made,))",
    ),
    Feature(
        "keys of a dictionary",
        "for key in self.keys_N:\n    x = torch.copysign(x, x.new_full((), key)) * key",
        init="self.keys_N = {<<0.0|1|True|2.0>>: 'a'}",
        changes=(
            "SELF.keys_N = {-0.0: 'a'}",
            "SELF.keys_N = {1.0: 'a'}",
            "SELF.keys_N = {True: 'a'}",
            "SELF.keys_N[0.5] = 'b'",
        ),
    ),
    Feature(
        "part with keywords of its own",
        "x = self.part_N(x, <<scale=2.0|scale=2.0, shift=1.0|scale=x.shape[0]>>)",
        top="class Keywords_N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(4, 4)\n\n    def forward(self, x, /, *, shift=0.0, scale):\n"
        "        return self.fc(x) * scale + shift",
        init="self.part_N = Keywords_N()",
        changes=("G.Keywords_N.forward.__kwdefaults__['shift'] = -0.0",),
    ),
    Feature(
        "part that is given what it does not take",
        "try:\n    x = self.part_N(x, 2.0)\nexcept TypeError as error:\n    self.told_N = str(error)",
        top="class Keyword_N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(4, 4)\n\n    def forward(self, x, *, scale=1.0):\n"
        "        return self.fc(x) * scale",
        init="self.part_N = Keyword_N()\nself.told_N = ''",
    ),
    Feature(
        "copy of a part, made once",
        "if not self.copies_N:\n    self.copies_N.append(copy.<<deepcopy|copy>>(self.fc_N))\n"
        "x = self.fc_N(x)",
        init=f"{FC}\nself.copies_N = []",
        changes=("SELF.copies_N[0].marked = 1", "SELF.copies_N[0].eval()"),
    ),
    Feature(
        "copy of a part, used",
        "if not self.copies_N:\n    self.copies_N.append(copy.deepcopy(self.seq_N))\n"
        "x = self.seq_N(x) + self.copies_N[0](x).detach()",
        init="self.seq_N = nn.Sequential(nn.Linear(4, 4), nn.Tanh())\nself.copies_N = []",
        changes=(
            "SELF.copies_N[0][0].__class__ = subclass(SELF.copies_N[0][0])",
            "SELF.copies_N[0].__class__ = subclass(SELF.copies_N[0])",
            "SELF.seq_N._modules = SELF.copies_N[0]._modules",
        ),
    ),
    Feature(
        "part in a weak dictionary",
        "for part, scale in self.weak_N.items():\n    x = part(x) * scale",
        init=f"{FC}\nself.weak_N = weakref.WeakKeyDictionary({{self.fc_N: 2.0}})",
        changes=("SELF.weak_N[SELF.fc_N] = 3.0", "SELF.fc_N.__class__ = subclass(SELF.fc_N)"),
    ),
    Feature(
        "tensor of a class of its own",
        "x = (x.as_subclass(Own_N) * 2).as_subclass(torch.Tensor)",
        top="class Own_N(torch.Tensor):\n    calls = 0\n\n    @classmethod\n"
        "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        Own_N.calls += 1\n"
        "        return super().__torch_function__(func, types, args, kwargs or {})",
    ),
    Feature(
        "torch function mode",
        "with Mode_N():\n    BODY",
        top="class Mode_N(torch.overrides.TorchFunctionMode):\n    calls = 0\n\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        Mode_N.calls += 1\n        return func(*args, **(kwargs or {}))",
    ),
    Feature(
        "enumeration",
        "x = x * (2 if self.kind_N is Kind_N.one else 3) * self.kind_N.value",
        top="import enum\n\n\nclass Kind_N(enum.Enum):\n    one = 1\n    two = 2",
        init="self.kind_N = Kind_N.one",
        changes=("SELF.kind_N = G.Kind_N.two",),
    ),
    Feature(
        "context variable",
        "x = x * scale_N.get()",
        top="import contextvars\n\nscale_N = contextvars.ContextVar('scale', default=2.0)",
        changes=("G.scale_N.set(3.0)", "G.scale_N.set(-0.0)"),
    ),
]
