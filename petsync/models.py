"""Values of the service: pets, categories, tags, API responses, and the signed-in account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

import msgspec

from petsync import _display

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


class Category(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A pet's category: `id` (int64), `name`, and in `extra` the fields that petsync does not know;
    each can be None.
    """

    id: Id | None = None
    name: str | None = None
    extra: Mapping[str, Any] | None = msgspec.field(default=None, name=_NOT_ON_THE_WIRE)

    def __hash__(self) -> int:
        return hash((self.id, self.name))


class Tag(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A pet's tag: `id` (int64), `name`, and in `extra` the fields that petsync does not know; each
    can be None. `str(tag)` is the name, or "" if it is None.
    """

    id: Id | None = None
    name: str | None = None
    extra: Mapping[str, Any] | None = msgspec.field(default=None, name=_NOT_ON_THE_WIRE)

    def __hash__(self) -> int:
        return hash((self.id, self.name))

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

    def __new__(cls, tag: Tag) -> Self:
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
    """Return the tag of an item in a list of tags. A plain text is the name of a tag without id."""
    if isinstance(item, TagName):
        return item.tag
    return item if isinstance(item, Tag) else Tag(None, item)


class Pet(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pet of the store.

    Lists are converted to tuples. Two pets are equal if all their fields are equal.
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
        force = msgspec.structs.force_setattr
        if type(self.photo_urls) is not tuple:
            force(self, "photo_urls", tuple(self.photo_urls or ()))
        if type(self.tags) is not tuple:
            force(self, "tags", tuple(self.tags or ()))
        if self.category is not None and self.category == _NOTHING:
            force(self, "category", None)

    def __hash__(self) -> int:
        return hash((self.id, self.name, self.status))


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

Kept = Literal["none", "memory", "keyring", "environment", "file", "argument"]
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
