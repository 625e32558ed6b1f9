"""Models that a command line names."""

import pytest


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("net", "MODEL is module:callable, such as models:resnet, not 'net'"),
        ("{}:nett", "{} has no 'nett'. Did you mean 'net'?"),
        ("no_such_module.here:net", "no module 'no_such_module' is in the working directory"),
        ("{}:number", "{}:number is a int, which is neither a model nor callable"),
        ("{}:wrong", "{}:wrong returned a str, not a torch.nn.Module"),
        ("{}:broken", "calling {}:broken raised RuntimeError: no weights here"),
        ("failing:net", "importing failing raised ValueError: at import"),
        (
            "needing:net",
            "importing needing raised ModuleNotFoundError: No module named 'not_there'",
        ),
        ("ending:net", "importing ending raised SystemExit: 3"),
        ("{}:leaving", "calling {}:leaving raised SystemExit: 0"),
    ],
)
def test_a_model_that_is_none_is_told(cli, models, write, model, told):
    write("failing.py", "def inner():\n    raise ValueError('at import')\n\ninner()\n")
    write("needing.py", "import not_there\n")
    write("ending.py", "raise SystemExit(3)\n")
    code, out, err = cli("targets", model.format(models), "2")
    assert (code, out) == (2, "")
    assert err.startswith(f"taiyi-fx: error: {told.format(models)}")
    assert "taiyi_fx/cli" not in err
    if "failing" in model:
        assert 'failing.py", line 2, in inner' in err


def test_arguments_of_the_callable_are_checked(cli, models):
    assert cli("targets", f"{models}:net", "2", "--call-args", "7")[2] == (
        "taiyi-fx: error: --call-args takes NAME=VALUE, such as width=64, not '7'\n"
    )
    assert "TypeError" in cli("targets", f"{models}:net", "2", "--call-args", "depth=7")[2]


@pytest.mark.parametrize("text", ["{[]: 1}", "(" * 500, "-" * 100_000 + "1"])
def test_what_is_no_literal_is_a_text(cli, models, text):
    assert cli("targets", f"{models}:net", "2", "--call-args", f"name={text}")[0] == 0
