"""ServiceProfile: every choice that the service's interface leaves open, in one frozen value.

docs/profiles.md explains each field: the gap and the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from petsync.errors import SettingsError

__all__ = ["LIVE", "PROFILES", "STANDARD", "ServiceProfile", "profile_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProfile:
    """How one service fills the interface's gaps. `STANDARD` is the default, `LIVE` the public
    reference server. Each field can be set in petsync.toml under `[service]`.
    """

    name: str = "standard"
    update_unknown: Literal["not_found", "creates"] = "not_found"
    """What updatePet does with an id that the store does not have."""
    add_existing: Literal["conflict", "replaces"] = "conflict"
    """What addPet does with an id that the store has. The client never relies on it."""
    assigns_unique_ids: bool = True
    """Whether addPet gives each pet without an id an id of its own, also to parallel requests."""
    capacity: int | None = None
    """How many pets the service keeps before an add drops the oldest one; None: no limit known.
    In petsync.toml 0 stands for None.
    """
    array_style: Literal["csv", "multi"] = "csv"
    """How `status` and `tags` travel in the query: `status=a,b` or `status=a&status=b`."""
    one_value_a_query: bool = False
    """Whether only the first value of an array parameter counts, so that each is asked alone."""
    unknown_status: Literal["invalid", "empty"] = "invalid"
    """What findPetsByStatus answers for a status that is not one of `statuses`."""
    statuses: tuple[str, ...] = ("available", "pending", "sold")
    """The status values to ask for in a snapshot, and to offer in a sheet."""
    any_status: bool = False
    """Whether a status outside `statuses` can be stored."""
    required: tuple[str, ...] = ("name", "photo_urls")
    """The fields without which the service refuses a pet."""
    form_clears: bool = False
    """Whether an empty value in updatePetWithForm empties the field (never relied on)."""
    upload_needs_pet: bool = True
    """Whether uploadFile answers 404 for an unknown pet."""
    upload_adds_photo: bool = True
    """Whether uploadFile appends the image's address to photoUrls."""
    xml_tag_item: Literal["tags", "tag"] = "tags"
    """The element of one tag inside `<tags>` in the XML that is sent."""
    xml_photo_item: Literal["photoUrls", "photoUrl"] = "photoUrls"
    """The element of one URL inside `<photoUrls>` in the XML that is sent."""
    media: Literal["json", "xml"] = "json"
    """The representation in which pets travel."""
    api_key_header: str = "api_key"
    """The header that carries the api key."""
    max_answer_mb: int = 512
    """How long a list of pets may be, in megabytes (10^6 bytes) once it is decompressed."""
    answer_seconds: int = 600
    """How many seconds a whole answer may take, from when the request has gone out."""


STANDARD = ServiceProfile()

LIVE = ServiceProfile(
    name="live",
    update_unknown="creates",
    add_existing="replaces",
    assigns_unique_ids=False,
    capacity=1000,
    array_style="multi",
    one_value_a_query=True,
    unknown_status="empty",
    any_status=True,
    required=(),
    upload_needs_pet=False,
    upload_adds_photo=False,
    xml_tag_item="tag",
    xml_photo_item="photoUrl",
)

PROFILES = {"standard": STANDARD, "live": LIVE}


def profile_from(name: str, overrides: Mapping[str, Any] | None = None) -> ServiceProfile:
    """The profile of that name with single fields replaced, as `[service]` in petsync.toml does.

    Raises SettingsError that names the field, its value and what it may be.
    """
    if name not in PROFILES:
        raise SettingsError(f"profile {name!r} is unknown", hint=f"Known: {', '.join(PROFILES)}.")
    hints = get_type_hints(ServiceProfile)
    values: dict[str, Any] = {
        key: _check_value(key, value, hints) for key, value in (overrides or {}).items()
    }
    return replace(PROFILES[name], **values)


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _check_value(key: str, value: object, hints: Mapping[str, Any]) -> object:
    if key not in hints:
        raise SettingsError(f"[service] {key} is unknown", hint=f"Known: {', '.join(hints)}.")
    options, items = get_args(hints[key]), value if isinstance(value, list | tuple) else ()
    if get_origin(hints[key]) is Literal:
        fits, expected = value in options, " or ".join(map(repr, options))
    elif options:
        value = tuple(value) if isinstance(value, list) else value
        fits = isinstance(value, tuple) and all(isinstance(item, str) for item in items)
        expected = "a list of text"
    else:
        fits, expected = type(value) is hints[key], f"of type {hints[key].__name__}"
    if key == "statuses":
        fits = fits and bool(value) and not any("," in item for item in items)
        expected = "a list of text without commas, and not empty"
    elif key == "api_key_header":
        fits = isinstance(value, str) and _HEADER.fullmatch(value) is not None
        expected = "of type str, and a header's name"
    elif key == "capacity":
        fits, expected = type(value) is int and value >= 0, "a whole number, 0 for no limit"
        value = value or None
    elif key in ("max_answer_mb", "answer_seconds"):
        fits, expected = type(value) is int and value > 0, "a whole number above 0"
    if not fits:
        raise SettingsError(f"[service] {key} is {value!r}, and must be {expected}")
    return value
