"""What a forward may do: a template of source text, and what may be changed about it later.

Words of a template: ``_N`` is a number of its own, ``<<a|b>>`` a choice, ``CLS`` the class it stands
in, ``PART`` a class that it uses and ``PICK`` how to take the tensor from what that returns, ``BODY``
other fragments, ``RETURN`` the return statement of its forward; in changes ``SELF`` is a path to an
instance, and ``G`` the module that holds the program.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """Takes ``x``, of shape (batch, 4), and leaves ``x`` of that shape.

    Attributes:
        name: What it is.
        forward: Statements of a forward.
        init: Statements of ``__init__``.
        top: Statements of the module, before its classes.
        body: Statements of the class.
        parameter: One more parameter of the forward, with a default.
        decorator: Decorators of the forward.
        parts: Paths to the parts that it has of class ``PART``.
        changes: Statements that change something that it reads.
    """

    name: str
    forward: str
    init: str = ""
    top: str = ""
    body: str = ""
    parameter: str = ""
    decorator: str = ""
    parts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def is_around(self) -> bool:
        """Whether it stands around other fragments."""
        return "BODY" in self.forward
