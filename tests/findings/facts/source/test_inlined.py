"""Code whose temporary values are written where they are used."""

import ast
import copy
import textwrap

import pytest

from taiyi_fx.findings.facts.source.inlined import forms_of, inlined, with_bodies
from taiyi_fx.findings.facts.source.of_loop import _found_in
from taiyi_fx.findings.facts.source.syntax import parsed


def written(code, *places):
    return ast.unparse(inlined(parsed(textwrap.dedent(code)), *places))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("kept = a * x\ny = kept + b", "y = a * x + b"),
        ("p = f(x)\nq = g(x)\ny = p + q", "y = f(x) + g(x)"),
        ("p = f(x)\nq = g(p)\ny = h(q)", "y = h(g(f(x)))"),
        ("def f(x):\n    y = 2 * x\n    return y", "def f(x):\n    return 2 * x"),
        ("s = f(loss)\ns.backward()", "f(loss).backward()"),
        ("rest = 1 - a\nz = model(x)\ny = rest * z + z", "z = model(x)\ny = (1 - a) * z + z"),
        ("for x in xs:\n    y = f(x)\n    out.append(y)", "for x in xs:\n    out.append(f(x))"),
        ("rows = f(x)\nfor row in rows:\n    g(row)", "for row in f(x):\n    g(row)"),
        ("if x:\n    pass\nelse:\n    y = f(x)\n    g(y)", "if x:\n    pass\nelse:\n    g(f(x))"),
    ],
)
def test_a_value_for_the_next_statement_is_written_into_it(code, expected):
    assert written(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "y = f(x)\nz = y + y",
        "y = f(x)\ny = g(y)",
        "y = f(x)\noptimizer.step()\nlog(y)",
        "rest = 1 - a\na = 2\ny = rest * z",
        "y = f(x)\nwhile y:\n    pass",
        "y = f(x)\ng(lambda: y)",
        "y = f(x)\nz = [y for _ in xs]",
        "y = f(x)\nfor x in xs:\n    g(y)",
        "y = f(x)\nprint(f'{y}')",
        "def f():\n    global y\n    y = g()\n    h(y)",
        "def g(x):\n    y = yield x\n    f(y)",
        "a, b = f(x)\ny = a",
        "self.y = f(x)\ng(self.y)",
        "y = f(x)",
    ],
)
def test_others_stay(code):
    assert written(code) == ast.unparse(ast.parse(code))


def test_each_part_keeps_its_line():
    (statement,) = inlined(parsed("y = f(x)\n\nz = y + 1")).body
    call = next(node for node in ast.walk(statement) if isinstance(node, ast.Call))
    assert (statement.lineno, call.lineno) == (3, 1)


def test_every_other_one_leaves_what_a_statement_is_of():
    code = "a = f(x)\nb = g(a)\nc = h(b)\nloss = k(c)\nloss.backward()"
    assert written(code) == "k(h(g(f(x)))).backward()"
    assert written(code, 0, 2) == "b = g(f(x))\nloss = k(h(b))\nloss.backward()"
    assert written(code, 1, 2) == "a = f(x)\nc = h(g(a))\nloss = k(c)\nloss.backward()"


def test_the_first_form_is_the_code_as_it_is():
    first, *others = forms_of("y = f(x)\nz = y + 1")
    assert ast.unparse(first) == "y = f(x)\nz = y + 1"
    all_of_it, none = ["z = f(x) + 1"] * 2, ["y = f(x)\nz = y + 1"] * 2
    assert [*map(ast.unparse, others)] == [*all_of_it, *all_of_it, *none]


def with_all(code):
    return ast.unparse(with_bodies(parsed(textwrap.dedent(code)))).splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(a, b):\n    return a + 2 * b\ny = f(x, 1 - z)", "y = x + 2 * (1 - z)"),
        ("def f(a, b):\n    return a - b\ny = f(b=x, a=z)", "y = z - x"),
        ("def f(a):\n    'Text.'\n    b = g(a)\n    return h(b)\ny = f(x)", "y = h(g(x))"),
        ("def f(a):\n    return a + 1\ny = f(f(x))", "y = x + 1 + 1"),
        ("def f(a):\n    return a + a\ny = k(f(x), f(z))", "y = k(x + x, z + z)"),
        (
            "class A:\n    def f(self, a):\n        return self.k * a\n"
            "    def g(self, x):\n        return self.f(x) + 1",
            "return self.k * x + 1",
        ),
    ],
)
def test_what_a_function_returns_is_written_where_it_is_called(code, expected):
    assert with_all(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "def f(a, b=2):\n    return a + b\ny = f(x)",
        "def f(*a):\n    return a\ny = f(x)",
        "def f(a, b):\n    return a + b\ny = f(*x)",
        "def f(a):\n    a.sort()\n    return a\ny = f(x)",
        "@cached\ndef f(a):\n    return a\ny = f(x)",
        "def f(a):\n    return a\ndef f(a):\n    return 2 * a\ny = f(x)",
        "def f(a):\n    return\ny = f(x)",
        "class A:\n    def f(self, a):\n        return a\ny = f(x)",
        "class A:\n    def f(self, a):\n        return a\ny = self.f(x)",
        "y = f(x)",
    ],
)
def test_other_calls_stay(code):
    assert with_all(code) == code.splitlines()[-1]


def test_functions_that_call_each_other_come_to_an_end():
    code = "def f(a):\n    return g(a) + g(a)\ndef g(a):\n    return f(a) + f(a)\ny = f(x)"
    assert len(with_all(code)) < 10_000
    chain = "".join(f"def f{i}(a):\n    return f{i - 1}(a) + f{i - 1}(a)\n" for i in range(1, 30))
    assert len(with_all(f"{chain}y = f29(x)")) < 10_000


@pytest.mark.parametrize("value", ["f(x{})", "[x{}, x{}]", "x{}.t"])
def test_a_long_chain_of_values_hides_nothing(value):
    links = (f"x{i + 1} = {value.format(i, i)}" for i in range(600))
    code = "\n".join((*links, "loss = f(x600) + penalty.item()", "loss.backward()"))
    assert kinds_in(code) == {"constant_term"}


def test_a_name_of_a_comprehension_stays():
    code = "def f(x, xs):\n    return [x for x in xs]\ny = f(a, b)"
    assert "for x in b" in with_all(code)


TRAININGS = {
    "turned_average": """
        for p, q in zip(model.parameters(), ema.parameters()):
            q.mul_(0.01).add_(p, alpha=0.99)
    """,
    "turned_mixture": """
        mixed = a * x + (1 - a) * x[order]
        order = torch.randperm(8)
        loss = a * f(z, y[order]) + (1 - a) * f(z, y)
    """,
    "uncumulated_noise": """
        alphas = 1 - torch.linspace(1e-4, 0.02, 100)
        products = torch.cumprod(alphas, dim=0)
        def noised(x0, t, noise):
            a = alphas[t]
            return a.sqrt() * x0 + (1 - a).sqrt() * noise
    """,
    "endless_target": """
        for s, a, r, s2, done in memory:
            target = r + gamma * net(s2).max(1).values
            loss = f(net(s).gather(1, a), target)
            loss.backward()
    """,
    "constant_term": """
        loss = f(x) + 0.1 * penalty.item()
        loss.backward()
    """,
    "turned_policy": """
        loss = (dist.log_prob(a) * advantages).mean()
        loss.backward()
    """,
    "turned_entropy": """
        entropy = d.entropy().mean()
        logp = d.log_prob(a)
        loss = policy_loss + 0.01 * entropy
        loss.backward()
    """,
    "scaled_clipping": """
        for x, y in batches:
            scaler.scale(f(model(x), y)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """,
    "fitted_to_each": """
        train["codes"] = pd.factorize(train["user"])[0]
        val["codes"] = pd.factorize(val["user"])[0]
    """,
    "leaked_target": """
        for i in range(len(s) - n):
            xs.append(s[i : i + n])
            ys.append(s[i + n - 1])
    """,
}
"""Code with a slip, by the kind that it is told as."""


def kinds_in(code):
    found, errors = _found_in(code, ())
    assert not errors
    return {kind for _, _, kind in found}


def extractions(code):
    """The same code, each with one part of a statement put into a name before it."""
    count = len([*_parts(ast.parse(code))])
    for i in range(count):
        tree = ast.parse(code)
        block, statement, part = [*_parts(tree)][i]
        named = ast.Assign([ast.Name("part", ast.Store())], copy.copy(part), lineno=part.lineno)
        part.__class__ = ast.Name
        part.id, part.ctx = "part", ast.Load()
        block.insert(block.index(statement), named)
        yield ast.unparse(ast.fix_missing_locations(tree))


def _parts(tree):
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse")):
            for statement in block if isinstance(block, list) else []:
                if isinstance(statement, (ast.Assign, ast.Expr, ast.Return)):
                    for part in ast.walk(statement.value):
                        if isinstance(part, (ast.Call, ast.BinOp)) and part is not statement.value:
                            yield block, statement, part


def as_functions(code):
    """The same code, each with one part of a statement made a function of what it names."""
    for i in range(len([*_parts(ast.parse(code))])):
        tree = ast.parse(code)
        _, _, part = [*_parts(tree)][i]
        named = dict.fromkeys(x.id for x in ast.walk(part) if isinstance(x, ast.Name))
        names = [name for name in named if name not in ("torch", "pd")]
        function = ast.parse(f"def part({', '.join(names)}):\n    return {ast.unparse(part)}").body
        call = ast.parse(f"part({', '.join(names)})", mode="eval").body
        part.__class__ = ast.Call
        vars(part).update(vars(call))
        tree.body[:0] = function
        yield ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize("change", [extractions, as_functions])
@pytest.mark.parametrize(("kind", "code"), TRAININGS.items(), ids=TRAININGS)
def test_a_slip_is_seen_whichever_part_of_it_has_a_name(kind, code, change):
    code = textwrap.dedent(code)
    assert kind in kinds_in(code)
    every = [*change(code)]
    assert every
    assert [one for one in every if kind not in kinds_in(one)] == []
