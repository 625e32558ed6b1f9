"""Operators that change their first operand in place, where it can be changed."""

from __future__ import annotations

import operator

_NAMES = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
IN_PLACE_OPERATORS = frozenset(getattr(operator, name) for name in _NAMES.split())
