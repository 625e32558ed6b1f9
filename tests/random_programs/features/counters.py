"""What a forward counts, keeps and moves on: counters, iterators, buffers, caches, logs."""

from tests.random_programs.feature import Feature

FEATURES = [
    Feature(
        "counter",
        "self.n_N += 1\nx = x * (1 + self.n_N % 3)",
        init="self.n_N = 0",
        changes=("SELF.n_N = 7", "SELF.n_N = -1.0", "SELF.n_N = True"),
    ),
    Feature("counter unread", "self.n_N = self.n_N + 1", init="self.n_N = 0"),
    Feature(
        "global counter",
        "count_N()\nx = x * (1 + COUNT_N % 3)",
        top="COUNT_N = 0\n\n\ndef count_N():\n    global COUNT_N\n    COUNT_N += 1",
        changes=("G.COUNT_N = 10",),
    ),
    Feature(
        "global counter in forward",
        "global COUNT_N\nCOUNT_N += 1\nx = x * (COUNT_N % 3)",
        top="COUNT_N = 0",
    ),
    Feature(
        "class counter",
        "<<CLS|type(self)>>.calls_N += 1\nx = x * (1 + self.calls_N % 3)",
        body="calls_N = 0",
        changes=("G.CLS.calls_N = 1", "SELF.calls_N = 5"),
    ),
    Feature(
        "warm-up",
        "self.n_N += 1\nif self.n_N < 3:\n    x = x * 2\nelse:\n    x = torch.tanh(x)",
        init="self.n_N = 0",
    ),
    Feature(
        "closure counter",
        "x = x * self.tick_N()",
        init="self.tick_N = ticker_N()",
        top="def ticker_N():\n    n = 0\n\n    def tick():\n        nonlocal n\n        n += 1\n"
        "        return n\n\n    return tick",
    ),
    Feature("itertools.count", "x = x * next(self.it_N)", init="self.it_N = itertools.count(1)"),
    Feature(
        "list iterator",
        "x = x * next(self.it_N<<, 1.0|>>)",
        init="self.it_N = iter([1.0, 2.0, 3.0, 4.0])",
        changes=("next(SELF.it_N, None)", "SELF.it_N = iter([])"),
    ),
    Feature("cycle", "x = x * next(self.it_N)", init="self.it_N = itertools.cycle([1.0, 2.0])"),
    Feature(
        "bound next",
        "x = x * self.next_N()",
        init="self.next_N = itertools.count(1).__next__",
    ),
    Feature(
        "generator object",
        "x = x * next(self.gen_N)",
        init="self.gen_N = numbers_N()",
        top="def numbers_N():\n    n = 0\n    while True:\n        n += 1\n        yield n",
    ),
    Feature("global iterator", "x = x * next(IT_N)", top="IT_N = itertools.count(1)"),
    Feature(
        "deque rotated",
        "self.queue_N.rotate()\nx = x * self.queue_N[0]",
        init="self.queue_N = collections.deque([1.0, 2.0, 3.0])",
    ),
    Feature(
        "list popped",
        "x = x * (self.left_N.pop() if self.left_N else 1.0)",
        init="self.left_N = [3.0, 2.0]",
    ),
    Feature(
        "bound list method",
        "self.note_N(x.shape[0])",
        init="self.seen_N = []\nself.note_N = self.seen_N.append",
    ),
    Feature(
        "buffer counted",
        "self.steps_N += 1\nx = x / self.steps_N",
        init="self.register_buffer('steps_N', torch.tensor(0<<|.0>>)<<|, persistent=False>>)",
        changes=("SELF.steps_N.fill_(5)", "SELF.steps_N = torch.tensor(3)"),
    ),
    Feature(
        "buffer replaced",
        "self.mean_N = 0.9 * self.mean_N + 0.1 * x.detach().mean(0)\nx = x - self.mean_N",
        init="self.register_buffer('mean_N', torch.zeros(4))",
    ),
    Feature(
        "buffer in place",
        "if self.training:\n    with torch.no_grad():\n"
        "        self.mean_N.mul_(0.9).add_(x.mean(0), alpha=0.1)\nx = x - self.mean_N",
        init="self.register_buffer('mean_N', torch.zeros(4))",
        changes=("SELF.mean_N = SELF.mean_N.clone()", "SELF.mean_N.zero_()"),
    ),
    Feature(
        "buffer copied into",
        "self.last_N.copy_(x.detach()[0])\nx = x + self.last_N",
        init="self.register_buffer('last_N', torch.zeros(4))",
    ),
    Feature(
        "lazy buffer",
        "if self.scale_N is None:\n    self.scale_N = x.detach().abs().mean() + 1\nx = x / self.scale_N",
        init="self.register_buffer('scale_N', None)",
        changes=("SELF.scale_N = None", "SELF.scale_N = torch.tensor(2.0)"),
    ),
    Feature(
        "lazy parameter",
        "if not hasattr(self, 'weight_N'):\n    self.weight_N = nn.Parameter(torch.ones(4))\nx = x * self.weight_N",
    ),
    Feature(
        "lazy module",
        "if self.fc_N is None:\n    self.fc_N = nn.Linear(4, 4)\nx = self.fc_N(x)",
        init="self.fc_N = None",
        changes=("SELF.fc_N = None",),
    ),
    Feature(
        "cache by shape",
        "if x.shape[0] not in self.cache_N:\n"
        "    self.cache_N[x.shape[0]] = torch.arange(x.shape[0]).float().unsqueeze(1)\n"
        "x = x + self.cache_N[x.shape[0]]",
        init="self.cache_N = {}",
        changes=("SELF.cache_N.clear()",),
    ),
    Feature(
        "lru_cache",
        "x = x + table_N(x.shape[0])",
        top="@functools.lru_cache\ndef table_N(n):\n    return torch.arange(n).float().unsqueeze(1)",
        changes=("G.table_N.cache_clear()",),
    ),
    Feature(
        "lru_cache of a method",
        "x = x + self.table_N(x.shape[0])",
        init="self.n_N = 1.0",
        body="@functools.lru_cache\ndef table_N(self, n):\n    self.n_N += 1\n    return torch.full((n, 1), self.n_N)",
    ),
    Feature(
        "lru_cache of a bound method",
        "x = self.cached_N(x.shape[0]) * x",
        init="self.drop_N = nn.Dropout(0.5)\nself.cached_N = functools.lru_cache(self.made_N)",
        body="def made_N(self, n):\n    return self.drop_N(torch.ones(n, 4))",
    ),
    Feature(
        "weight clamped",
        "self.fc_N.weight.data.clamp_(-0.3, 0.3)\nx = self.fc_N(x)",
        init="self.fc_N = nn.Linear(4, 4)",
    ),
    Feature(
        "weight changed under no_grad",
        "with torch.no_grad():\n    self.fc_N.weight.mul_(0.9)\nx = self.fc_N(x)",
        init="self.fc_N = nn.Linear(4, 4)",
    ),
    Feature("aux list", "self.aux_N.append(x.square().mean())", init="self.aux_N = []"),
    Feature("aux list made in forward", "self.aux_N = []\nself.aux_N.append(x.square().mean())"),
    Feature("aux attribute", "self.aux_N = x.square().mean()", init="self.aux_N = None"),
    Feature("aux global", "AUX_N.append(x.abs().mean())", top="AUX_N = []"),
    Feature(
        "aux in a helper",
        "keep_N(x.abs().mean())",
        top="AUX_N = []\n\n\ndef keep_N(v, into=AUX_N):\n    into.append(v)",
    ),
    Feature("log of floats", "LOG_N.append(float(x.sum()))", top="LOG_N = []"),
    Feature("log of texts", "LOG_N.append(f'{x.shape[0]} {type(x).__name__}')", top="LOG_N = []"),
    Feature(
        "log of tensors", "self.seen_N.append(x.detach()<<|.clone()>>)", init="self.seen_N = []"
    ),
    Feature(
        "log of tensors with a graph",
        "self.seen_N = [*self.seen_N[-1:], x]",
        init="self.seen_N = []",
    ),
    Feature("kept tensor", "self.last_N = x", changes=("SELF.last_N = None",)),
    Feature(
        "kept tensor used next time",
        "if self.last_N is not None and self.last_N.shape == x.shape:\n    x = x + self.last_N\n"
        "self.last_N = x.detach()",
        init="self.last_N = None",
        changes=("SELF.last_N = None",),
    ),
    Feature(
        "maps on the class",
        "attention = torch.softmax(x @ x.t(), -1)\n<<CLS|type(self)>>.maps_N[len(self.maps_N)] = attention<<|.detach()>>\n"
        "x = attention @ x",
        body="maps_N = {}",
        changes=("G.CLS.maps_N.clear()",),
    ),
    Feature(
        "counts",
        "self.counts_N[x.shape[0]] += 1\nx = x * self.counts_N[x.shape[0]]",
        init="self.counts_N = collections.Counter()",
    ),
    Feature(
        "dict filled by a helper",
        "d = {'h': x}\nfill_N(d)\nx = d['h']",
        top="def fill_N(d):\n    d['h'] = d['h'] * 2",
    ),
    Feature(
        "string built", "self.trace_N += '.'\nx = x * len(self.trace_N)", init="self.trace_N = ''"
    ),
    Feature("setattr", "setattr(self, 'size_N', x.shape[0])\nx = x * self.size_N"),
    Feature("__dict__ written", "self.__dict__['size_N'] = x.shape[0]\nx = x / self.size_N"),
    Feature(
        "part's attribute written",
        "self.fc_N.n = getattr(self.fc_N, 'n', 0) + 1\nx = self.fc_N(x) * self.fc_N.n",
        init="self.fc_N = nn.Linear(4, 4)",
    ),
    Feature(
        "part's class attribute written by a leaf",
        "x = self.leaf_N(x) * Leaf_N.n",
        init="self.leaf_N = Leaf_N()",
        top="class Leaf_N(nn.Module):\n    n = 0\n\n    def forward(self, x):\n        Leaf_N.n += 1\n        return x * 1",
    ),
    Feature(
        "part's attribute read after it",
        "x = self.leaf_N(x) * self.leaf_N.n",
        init="self.leaf_N = Leaf_N()",
        top="class Leaf_N(nn.Module):\n    n = 0\n\n    def forward(self, x):\n        self.n = x.shape[0]\n        return x * 1",
    ),
    Feature(
        "part's buffer read around it",
        "before = self.leaf_N.seen\nx = self.leaf_N(x) + before - self.leaf_N.seen",
        init="self.leaf_N = Leaf_N()",
        top="class Leaf_N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('seen', torch.zeros(4))\n\n    def forward(self, x):\n"
        "        self.seen <<= self.seen + 1|+= 1>>\n        return x * 1",
    ),
    Feature("warning", "warnings.warn('look', stacklevel=1)"),
    Feature(
        "default dict",
        "self.sums_N['x'].append(x.shape[0])\nx = x * len(self.sums_N['x'])",
        init="self.sums_N = collections.defaultdict(list)",
    ),
    Feature(
        "set",
        "self.sizes_N.add(x.shape[0])\nx = x * len(self.sizes_N)",
        init="self.sizes_N = set()",
    ),
    Feature(
        "delattr",
        "if hasattr(self, 'once_N'):\n    del self.once_N\n    x = x * 2",
        init="self.once_N = 1",
    ),
    Feature(
        "requires_grad in forward",
        "self.fc_N.weight.requires_grad_(self.fc_N.bias is not None)\nx = self.fc_N(x)",
        init="self.fc_N = nn.Linear(4, 4)",
    ),
    Feature("forgets what it held", "self.last_N = None\nx = x * 1\nself.last_N = weakref.ref(x)"),
]
