"""The base of test doubles finds each way in which a double can drift from its interface."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from doubles import Double


class Shelf(Protocol):
    """An interface with a member of each kind."""

    @property
    def size(self) -> int:
        """How many fit."""

    def put(self, book: str, *, place: int, note: str = "") -> None:
        """Put a book in a place."""

    async def flush(self) -> None:
        """Return when all are there."""


class Whole(Double, of=Shelf):
    """A double that has all of it, in ways of its own."""

    size = 7

    def put(self, book: str, more: int = 0, **options: Any) -> None:
        """As an interface's method with other names and defaults."""

    async def flush(self) -> None:
        """Nothing."""


class WithoutNote:
    """A method that lacks an argument."""

    def put(self, book: str, *, place: int) -> None:
        """No note."""


class OtherName:
    """A method whose argument has another name."""

    def put(self, volume: str, *, place: int, note: str = "") -> None:
        """Not a book."""


class NeedsNote:
    """A method that needs what the interface leaves out."""

    def put(self, book: str, *, place: int, note: str) -> None:
        """No default."""


class Blocking:
    """A method that is not awaited."""

    def flush(self) -> None:
        """At once."""


class Called:
    """A method in place of a value."""

    def size(self) -> int:
        """A call."""
        return 7


def test_a_double_that_has_all_of_the_interface_is_a_class() -> None:
    """Members may be attributes, and methods may take more than they are given."""
    assert Whole().size == 7


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (WithoutNote, "put cannot be called as the interface says"),
        (OtherName, "put cannot be called as the interface says"),
        (NeedsNote, "put cannot be called as the interface says"),
        (Blocking, "flush is asynchronous in only one of the two"),
        (Called, "size is a method"),
    ],
)
def test_a_double_that_differs_is_an_error_where_it_is_defined(part: type, problem: str) -> None:
    """Also where only a class derived from a right double differs."""
    with pytest.raises(TypeError, match=f"not a Shelf: Wrong.{problem}"):
        type("Wrong", (part, Whole), {})


@pytest.mark.parametrize("name", ["size", "put", "flush"])
def test_a_double_that_lacks_a_member_is_an_error(name: str) -> None:
    """Each kind of member is missed."""
    parts = {each: vars(Whole)[each] for each in ("size", "put", "flush") if each != name}
    with pytest.raises(TypeError, match=f"not a Shelf: Wrong.{name} is missing"):
        type("Wrong", (Double,), parts, of=Shelf)
