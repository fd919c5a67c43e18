"""Values of the service: pets, categories, tags, API responses, and the signed-in account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

import msgspec

from petsync import _display
from petsync.errors import SettingsError

__all__ = [
    "MAX_ID",
    "MIN_ID",
    "NOBODY",
    "READ",
    "WRITE",
    "Account",
    "ApiResponse",
    "Category",
    "Kept",
    "Kind",
    "Pet",
    "Tag",
    "TagName",
    "as_int64",
    "as_tag",
]


# The service's resources, as frozen values.
#
# Source: the schemas in sandbox/openapi.json. An absent field and a null field are both None here;
# an absent list is empty. Unknown fields are stored in `extra` and sent back by a PUT.


MAX_ID = 2**63 - 1
"""The largest id: ids are int64."""
MIN_ID = -(2**63)

Id = Annotated[int, msgspec.Meta(ge=MIN_ID, le=MAX_ID)]

# No field of the service can have this name, so a decoder never fills `extra` itself: an unknown
# field fails the strict decoder, and protocol/json.py then decodes the pet without loss.
_NOT_ON_THE_WIRE = "extra (kept by petsync)"


def as_int64(value: object) -> int | None:
    """Return an integer of int64, such as one of numpy, as an `int`; None for any other value."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        number = value.__index__()
    except TypeError:  # an array
        return None
    return number if MIN_ID <= number <= MAX_ID else None


def _set_id(of: _Label | Pet, what: str) -> None:
    """Make the id an `int` or None. Raises SettingsError if it is not an id."""
    if of.id is None:
        return
    number = as_int64(of.id)
    if number is None:
        raise SettingsError(
            f"the id of {what} is {_shown(of.id)}, not a 64-bit integer",
            hint="Write the number, or None for no id.",
        )
    msgspec.structs.force_setattr(of, "id", number)


def _set_text(of: _Label | Pet, name: str, what: str) -> None:
    """Make the field a `str` or None. Raises SettingsError if it is not text."""
    value = getattr(of, name)
    if value is None:
        return
    if not isinstance(value, str):
        raise SettingsError(
            f"the {name} of {what} is {_shown(value)}, not text",
            hint="Write text, or None for a missing value.",
        )
    # A plain text also of a subclass, such as numpy's.
    msgspec.structs.force_setattr(of, name, str.__str__(value))


def _check_extra(of: _Label | Pet, what: str) -> None:
    if of.extra is not None and not isinstance(of.extra, Mapping):
        raise SettingsError(
            f"the extra fields of {what} are {_shown(of.extra)}, not a dict",
            hint='Write a dict of fields with their values, such as extra={"weight": 4}.',
        )


def _shown(value: object) -> str:
    return repr(value)[:60]


class _Label(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    id: Id | None = None
    name: str | None = None
    extra: Mapping[str, Any] | None = msgspec.field(default=None, name=_NOT_ON_THE_WIRE)

    def __post_init__(self) -> None:
        # Decoded labels pass this test, which takes little time.
        if not (
            type(self.id) is int
            and MIN_ID <= self.id <= MAX_ID
            and type(self.name) is str
            and self.extra is None
        ):
            what = f"a {type(self).__name__.lower()}"
            _set_text(self, "name", what)
            _set_id(self, what if self.name is None else f"{what} {_shown(self.name)}")
            _check_extra(self, what)

    def __hash__(self) -> int:
        return hash((self.id, self.name))


class Category(_Label, frozen=True, gc=False, forbid_unknown_fields=True):
    """A pet's category: `id` (int64), `name`, and in `extra` the fields that petsync does not know;
    each can be None. Raises SettingsError for a value of another type.
    """


class Tag(_Label, frozen=True, gc=False, forbid_unknown_fields=True):
    """A pet's tag: `id` (int64), `name`, and in `extra` the fields that petsync does not know; each
    can be None. `str(tag)` is the name, or "" if it is None. Raises SettingsError for a value of
    another type.
    """

    def __str__(self) -> str:
        return self.name or ""

    def __repr__(self) -> str:
        return f"Tag({self.id!r}, {self.name!r})" if self.extra is None else super().__repr__()


class TagName(str):
    """A tag in a DataFrame: the text is its name, "" if it is None, and `tag` is the whole tag.

    It equals its text, with any id. So pandas counts and compares names, and Parquet, polars and
    DuckDB read texts. The result of a method of `str` is a plain text, without the id.
    """

    __slots__ = ("tag",)
    tag: Tag

    def __new__(cls, tag: Tag | str) -> Self:
        tag = as_tag(tag)
        made = super().__new__(cls, tag.name or "")
        made.tag = tag
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[Tag]]:
        return type(self), (self.tag,)

    @property
    def id(self) -> int | None:
        """The id of the tag (int64), or None."""
        return self.tag.id

    @property
    def name(self) -> str | None:
        """The name of the tag, or None."""
        return self.tag.name

    @property
    def extra(self) -> Mapping[str, Any] | None:
        """The fields of the tag that petsync does not know, or None."""
        return self.tag.extra


def as_tag(item: Tag | str) -> Tag:
    """Return the tag of an item in a list of tags. A plain text is the name of a tag without id.
    Raises SettingsError for another value.
    """
    if isinstance(item, TagName):
        return item.tag
    return item if isinstance(item, Tag) else Tag(None, item)


class Pet(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pet of the store.

    Lists are converted to tuples, and the names of tags to tags without an id. Two pets are equal
    if all their fields are equal. Raises SettingsError for a value of another type.
    """

    id: Id | None = None
    """int64; None if the service must assign it."""
    name: str | None = None
    photo_urls: tuple[str, ...] = ()
    """The URLs of the photos, in order."""
    category: Category | None = None
    """A category in which all fields are None is converted to None."""
    tags: tuple[Tag, ...] = ()
    status: str | None = None
    extra: Mapping[str, Any] | None = None
    """The fields that petsync does not know, or None."""

    def __post_init__(self) -> None:
        if (
            type(self.id) is not int
            or type(self.name) is not str
            or type(self.status) is not str
            or self.extra is not None
        ):
            self._set_plain_fields()
        if not MIN_ID <= (self.id or 0) <= MAX_ID:
            _set_id(self, "a pet")
        if type(self.photo_urls) is not tuple or not {*map(type, self.photo_urls)} <= _TEXT:
            self._set_list("photo_urls", _as_url)
        if type(self.tags) is not tuple or not {*map(type, self.tags)} <= _TAG:
            self._set_list("tags", _as_tag)
        if self.category is not None:
            self._set_category(self.category)

    def _set_plain_fields(self) -> None:
        _set_id(self, "a pet")
        _set_text(self, "name", self._title())
        _set_text(self, "status", self._title())
        _check_extra(self, self._title())

    def _set_category(self, category: object) -> None:
        if not isinstance(category, Category):
            example = category if isinstance(category, str) else "Dogs"
            raise SettingsError(
                f"the category of {self._title()} is {_shown(category)}, not a Category",
                hint=f"Write category=ps.Category(name={example!r}), with its id if it has one.",
            )
        if category == _NOTHING:
            msgspec.structs.force_setattr(self, "category", None)

    def _set_list(self, name: str, read: Callable[[Any], object]) -> None:
        """Make the field a tuple of the items that `read` returns. Raises SettingsError if it is
        not a list.
        """
        values: object = getattr(self, name)
        if values is None:
            values = ()
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            item = "…" if not isinstance(values, str | Tag) else _shown(values)
            raise SettingsError(
                f"{name} of {self._title()} is {_shown(values)}, not a list",
                hint=f"Write a list, such as {name}=[{item}].",
            )
        try:
            items = tuple(map(read, values))
        except TypeError:  # an array without dimensions
            raise SettingsError(
                f"{name} of {self._title()} is {_shown(values)}, not a list",
                hint=f"Write a list, such as {name}=[…].",
            ) from None
        except SettingsError as error:
            raise SettingsError(
                f"{name} of {self._title()}: {error.problem}", hint=error.cure
            ) from None
        msgspec.structs.force_setattr(self, name, items)

    def _title(self) -> str:
        if self.id is not None:
            return f"pet {self.id}"
        return f"the pet {_shown(self.name)}" if isinstance(self.name, str) else "a pet"

    def __hash__(self) -> int:
        return hash((self.id, self.name, self.status))


def _as_tag(value: Any) -> Tag:
    if value is None:
        raise SettingsError("None is not a tag", hint='Write names, or Tag(7, "calm").')
    return as_tag(value)


def _as_url(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise SettingsError(f"{_shown(value)} is not text", hint="Write the URL of a photo as text.")


_TEXT, _TAG = {str}, {Tag}


class ApiResponse(msgspec.Struct, frozen=True):
    """The response to an image upload: int32 `code`, `type` and `message`, each None if missing."""

    code: int | None = None
    type: str | None = None
    message: str | None = None


_NOTHING = Category()


# Account: the user at the service, and the permissions.


READ = "read:pets"
WRITE = "write:pets"

Kind = Literal["none", "token", "client credentials", "code", "implicit", "api key"]
"""The kind of a sign-in."""

Kept = Literal["none", "memory", "keyring", "environment", "job", "file", "argument"]
"""Where the sign-in is stored or comes from; "none" without a sign-in."""

NOBODY = "there was no sign-in"
"""The problem that a sign-out reports if there is no sign-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known about the sign-in at a service and its account. It contains no secret."""

    url: str
    signed_in: bool = False
    kind: Kind = "none"
    user: str = ""
    """Empty if unknown."""
    client_id: str = ""
    scopes: frozenset[str] | None = None
    """None if unknown."""
    can_read: bool | None = None
    """None if unknown."""
    can_write: bool | None = None
    """None if unknown."""
    expires: datetime | None = None
    """In UTC; None if it is unknown or if there is no expiry."""
    renews: bool = False
    """Whether petsync renews the token."""
    kept: Kept = "none"
    api_key: bool = False
    """Whether an API key is set."""
    problem: str = ""
    """A problem or a notice for the user; "" if there is none."""

    @property
    def is_open(self) -> bool:
        """True if the store lists its pets without a sign-in, and nobody is signed in."""
        return not self.signed_in and self.can_read is True

    def __str__(self) -> str:
        return _display.as_text(self)

    def _repr_html_(self) -> str:
        return _display.as_html(self)

    def _repr_pretty_(self, printer: object, _: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]
