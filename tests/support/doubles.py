"""Test doubles that are checked against the interface that they replace."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar


class Double:
    """A base class of test doubles: `class Journal(Double, of=Recorder)`.

    A class that lacks a member of the interface, or has a method with other arguments, raises
    TypeError where it is defined, as does each class that derives from it.
    """

    _interface: ClassVar[type]

    def __init_subclass__(cls, *, of: type | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if of is not None:
            cls._interface = of
        wrong = [
            f"{cls.__name__}.{name} {problem}"
            for name, member in vars(cls._interface).items()
            if not name.startswith("_")
            and (problem := _problem(member, inspect.getattr_static(cls, name, None)))
        ]
        if wrong:
            raise TypeError(f"not a {cls._interface.__name__}: {'; '.join(wrong)}")


def _problem(member: object, ours: object) -> str:
    """Return why `ours` cannot replace the member of an interface; an empty text if it can."""
    if ours is None:
        return "is missing"
    if not inspect.isfunction(member):
        return "is a method" if inspect.isfunction(ours) else ""
    if not inspect.isfunction(ours):
        return "is not a method"
    if inspect.iscoroutinefunction(member) != inspect.iscoroutinefunction(ours):
        return "is asynchronous in only one of the two"
    try:
        _bind_every_call(member, ours)
    except TypeError as error:
        return f"cannot be called as the interface says: {error}"
    return ""


def _bind_every_call(member: Callable[..., object], ours: Callable[..., object]) -> None:
    """Bind all arguments by position, all by name, and only those without a default."""
    _self, *arguments = inspect.signature(member).parameters.values()
    needed = [each for each in arguments if each.default is each.empty]
    signature = inspect.signature(ours)
    for given, by_name in ((arguments, False), (arguments, True), (needed, False)):
        named = [each.name for each in given if by_name or each.kind is each.KEYWORD_ONLY]
        signature.bind(_self, *given[: len(given) - len(named)], **dict.fromkeys(named))
