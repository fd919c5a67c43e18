"""The error tree."""

from __future__ import annotations

import inspect

from petsync import errors


def test_the_tree_is_drawn_as_it_is() -> None:
    """The module's drawing names every error with its builtin base classes and its exit code."""
    drawing = errors.__doc__ or ""
    for name in errors.__all__:
        kind = getattr(errors, name)
        line = next(line for line in drawing.splitlines() if f" {name}" in line)
        assert issubclass(kind, errors.PetsyncError)
        builtins = [b for b in kind.__bases__ if not issubclass(b, errors.PetsyncError)]
        assert kind is errors.PetsyncError or all(b.__name__ in line for b in builtins)
        codes = [int(word) for word in line.split() if word.isdigit() and int(word) < 100]
        if codes:
            assert codes == [kind.exit_code]


def test_every_error_is_in_the_list() -> None:
    """`__all__` has each error class of the module."""
    classes = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert {name for name in classes if name.endswith("Error")} == set(errors.__all__)


def test_the_way_out_stands_below_the_message() -> None:
    """str() is the message and the hint, also for a KeyError."""
    error = errors.NotFoundError("no pet 7", hint="Look at the list.", pet_id=7)
    assert str(error) == "no pet 7\nLook at the list."
    assert str(errors.PlanError("no plan")) == "no plan"
