"""Calls of functions whose code is known: interpreted, never run."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FunctionType
from typing import Any

from taiyi_fx.passes.capture.frame import Frame
from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.source import body_of, is_torchs_file
from taiyi_fx.passes.capture.statements import Return, run
from taiyi_fx.passes.capture.values import FIXED, NONE, Known, Refused, Value, is_simple


def inline(writer: GraphWriter, function: FunctionType, args: Any, kwargs: Any) -> Value:
    """The result of a function's call, whose operations become part of the graph.

    Raises:
        Refused: The function does something that a graph cannot hold.
    """
    return interpret(writer, function, arguments(function, args, kwargs))


def interpret(writer: GraphWriter, function: FunctionType, local: dict[str, Value]) -> Value:
    """The result of a function, interpreted from its first variables on.

    Raises:
        Refused: The function does something that a graph cannot hold.
    """
    frame = Frame(writer, function, local, function.__code__.co_firstlineno)
    writer.frames.append(frame)
    try:
        rely_on(writer, function)
        run(frame, body_of(function))
    except Return as done:
        return done.value
    except RecursionError:
        raise
    except Refused as refused:
        _place(refused, frame)
        raise
    except Exception as error:
        refused = Refused.because_of(error)
        _place(refused, frame)
        raise refused from error
    finally:
        writer.frames.pop()
    return NONE


def _place(refused: Refused, frame: Frame) -> None:
    """Notes the file and line: the innermost that is not in a file of torch's, if there is one."""
    filename = frame.function.__code__.co_filename
    if not refused.place or (refused.is_torchs and not is_torchs_file(filename)):
        refused.place = f"{Path(filename).name}:{frame.line}"
        refused.is_torchs = is_torchs_file(filename)


def rely_on(writer: GraphWriter, function: FunctionType) -> None:
    """Puts a function's code and defaults under guards."""
    require = writer.guards.require
    require(function, "__code__", function.__code__)
    for name in ("__defaults__", "__kwdefaults__"):
        found = getattr(function, name)
        # A dictionary may change, a tuple may not.
        require(function, name, dict(found) if isinstance(found, dict) else found)


def arguments(function: FunctionType, args: Any, kwargs: Any) -> dict[str, Value]:
    """The first variables of a function: its parameters, with the values of a call.

    Raises:
        Refused: The arguments do not match the parameters.
    """
    code, given = function.__code__, dict(kwargs)
    names, star, stars = inspect.getargs(code)
    local: dict[str, Value] = dict(zip(names[: code.co_argcount], args, strict=False))
    rest = tuple(args[code.co_argcount :])
    if star:
        local[star], rest = rest, ()
    for name in names[code.co_posonlyargcount :]:
        if name in given and name not in local:
            local[name] = given.pop(name)
    if stars:
        local[stars], given = given, {}
    defaults = defaults_of(function)
    missing = [name for name in names if name not in local and name not in defaults]
    if rest or given or missing:
        raise Refused(f"calls {function.__name__} with other arguments than it takes")
    return local | {name: _default(defaults[name], name) for name in names if name not in local}


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """A function's defaults by the names of its parameters."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(names, defaults, strict=True)), **(function.__kwdefaults__ or {})}


def _default(value: Any, name: str) -> Value:
    if is_simple(value) or isinstance(value, FIXED):
        return Known(value)
    raise Refused(f"has a default that it may change, {name!r}")
