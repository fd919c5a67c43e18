"""The base class of test doubles finds each difference between a double and its interface."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from doubles import Double


class Shelf(Protocol):
    """An interface with a member of each kind."""

    @property
    def size(self) -> int:
        """The number of books that fit."""

    def put(self, book: str, *, place: int, note: str = "") -> None:
        """Put a book in a place."""

    async def flush(self) -> None:
        """Return when all books are in place."""


class Whole(Double, of=Shelf):
    """A double that has every member, in different forms."""

    size = 7

    def put(self, book: str, more: int = 0, **options: Any) -> None:
        """Accept the interface's call with other names and defaults."""

    async def flush(self) -> None:
        """Do nothing."""


class WithoutNote:
    """A class whose method lacks an argument."""

    def put(self, book: str, *, place: int) -> None:
        """Take no note."""


class OtherName:
    """A class whose method has another name for an argument."""

    def put(self, volume: str, *, place: int, note: str = "") -> None:
        """Take a volume instead of a book."""


class NeedsNote:
    """A class whose method requires an argument that is optional in the interface."""

    def put(self, book: str, *, place: int, note: str) -> None:
        """Take a note without a default."""


class Blocking:
    """A class whose method is not asynchronous."""

    def flush(self) -> None:
        """Return at once."""


class Called:
    """A class with a method in place of a value."""

    def size(self) -> int:
        """Return the size from a call."""
        return 7


def test_a_double_that_has_all_of_the_interface_is_a_class() -> None:
    """A double may have attributes as members, and methods with more arguments."""
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
    """A double that differs from its interface raises at its definition, also if only a derived
    class differs.
    """
    with pytest.raises(TypeError, match=f"not a Shelf: Wrong.{problem}"):
        type("Wrong", (part, Whole), {})


@pytest.mark.parametrize("name", ["size", "put", "flush"])
def test_a_double_that_lacks_a_member_is_an_error(name: str) -> None:
    """A double that lacks a member of any kind raises at its definition."""
    parts = {each: vars(Whole)[each] for each in ("size", "put", "flush") if each != name}
    with pytest.raises(TypeError, match=f"not a Shelf: Wrong.{name} is missing"):
        type("Wrong", (Double,), parts, of=Shelf)
