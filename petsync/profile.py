"""ServiceProfile: how a service behaves where the definition of the API leaves a choice.

docs/profiles.md explains each field and its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from petsync.errors import SettingsError

__all__ = ["LIVE", "PROFILES", "STANDARD", "ServiceProfile", "profile_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProfile:
    """The behaviour of one service where the definition of the API leaves a choice. `STANDARD` is
    the default, `LIVE` describes the public reference server. petsync.toml can set fields under
    `[service]`.
    """

    name: str = "standard"
    update_unknown: Literal["not_found", "creates"] = "not_found"
    """What updatePet does with an id that the store does not have."""
    add_existing: Literal["conflict", "replaces"] = "conflict"
    """What addPet does with an id that the store has. petsync does not rely on it."""
    assigns_unique_ids: bool = True
    """Whether addPet assigns a unique id to each pet without an id, even in parallel requests."""
    capacity: int | None = None
    """The number of pets above which an add drops the oldest pet; None for no known limit. In
    petsync.toml, 0 means None.
    """
    array_style: Literal["csv", "multi"] = "csv"
    """The form of `status` and `tags` in the query: `status=a,b` or `status=a&status=b`."""
    one_value_a_query: bool = False
    """Whether only the first value of an array parameter counts. If so, petsync sends one value per
    request.
    """
    unknown_status: Literal["invalid", "empty"] = "invalid"
    """The response of findPetsByStatus for a status that is not one of `statuses`."""
    statuses: tuple[str, ...] = ("available", "pending", "sold")
    """The statuses that a snapshot queries by default, and that an exported workbook offers."""
    any_status: bool = False
    """Whether a status outside `statuses` can be stored."""
    required: tuple[str, ...] = ("name", "photo_urls")
    """The fields without which the service refuses a pet."""
    form_clears: bool = False
    """Whether an empty value in updatePetWithForm clears the field. petsync does not rely on it."""
    upload_needs_pet: bool = True
    """Whether the response of uploadFile is 404 for an unknown pet."""
    upload_adds_photo: bool = True
    """Whether uploadFile appends the image's URL to photoUrls."""
    xml_tag_item: Literal["tags", "tag"] = "tags"
    """The element of one tag inside `<tags>` in the XML that is sent."""
    xml_photo_item: Literal["photoUrls", "photoUrl"] = "photoUrls"
    """The element of one URL inside `<photoUrls>` in the XML that is sent."""
    media: Literal["json", "xml"] = "json"
    """The format of pets in requests and responses."""
    api_key_header: str = "api_key"
    """The header with the API key."""
    max_answer_mb: int = 512
    """The maximum size of a list of pets after decompression, in megabytes (10^6 bytes); less than
    16 has the effect of 16.
    """
    answer_seconds: int = 600
    """The maximum number of seconds from the end of the request to the end of the response."""


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


def profile_from(name: str, fields: Mapping[str, Any] | None = None) -> ServiceProfile:
    """Return the named profile with the `fields` replaced, as `[service]` in petsync.toml does.
    Raises SettingsError for an unknown name.
    """
    if name not in PROFILES:
        raise SettingsError(f"profile {name!r} is unknown", hint=f"Known: {', '.join(PROFILES)}.")
    return replace(PROFILES[name], **(fields or {}))
