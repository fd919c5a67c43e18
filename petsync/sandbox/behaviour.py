"""How the sandbox fills the gaps of the interface.

It is the sandbox's own notion, kept apart from `ServiceProfile` on purpose: where client and
server disagree, a test notices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from petsync.errors import SettingsError
from petsync.sandbox.strict import STATUSES
from petsync.wire.xml import Shape

__all__ = ["BEHAVIOURS", "LIVE", "STANDARD", "Behaviour", "behaviour_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One way to answer. The defaults are the `standard` profile's."""

    name: str = "standard"
    put_creates: bool = False
    """updatePet with an unknown id makes the pet instead of answering 404."""
    post_replaces: bool = False
    """addPet with a known id replaces the pet instead of answering 409."""
    reuses_ids: bool = False
    """An assigned id is the highest present one plus one, even if that one was used before, and at
    2^63-1 that id again.
    """
    unique_ids: bool = True
    """An id is computed and its pet stored in one step. Otherwise there is no lock between the two:
    parallel adds can get the same id, and the later pet replaces the earlier.
    """
    own_ids: bool = False
    """addPet gives a pet that has an id another one."""
    capacity: int | None = None
    """An add beyond so many pets drops the one that was added first; None for no limit."""
    statuses: frozenset[str] | None = STATUSES
    """The values a status may have; None for any text."""
    strict_pets: bool = True
    """name and photoUrls are required, ids are integers and not text, a status is a known one."""
    bad_id: int = 400
    """The status for a path whose pet id is no int64."""
    bad_type: int = 400
    """The status for a body that is well formed and yet no pet."""
    first_value_only: bool = False
    """Of a repeated query parameter only the first one counts."""
    once_per_tag: bool = False
    """findPetsByTags lists a pet as often as its tags match."""
    form_skips_empty: bool = False
    """updatePetWithForm passes over empty values."""
    upload_needs_pet: bool = True
    upload_adds_photo: bool = True
    imitates_original: bool = False
    """Bodies are read, and errors and uploads are answered, as the original server does it."""
    code_in_xml: bool = True
    """An ApiResponse in XML has its code."""
    response_root: str = "ApiResponse"
    """The root element of an ApiResponse in XML."""
    says_done: bool = False
    """deletePet and updatePetWithForm answer with an ApiResponse instead of no body."""
    shape: Shape = field(default_factory=Shape)
    flows: tuple[str, ...] = ("code",)
    """How a person's browser can bring a program its token: `code`, and `token` (implicit)."""


STANDARD = Behaviour()

LIVE = Behaviour(
    name="live",
    put_creates=True,
    post_replaces=True,
    reuses_ids=True,
    unique_ids=False,
    capacity=1000,
    statuses=None,
    strict_pets=False,
    bad_id=404,
    bad_type=500,
    first_value_only=True,
    once_per_tag=True,
    form_skips_empty=True,
    upload_needs_pet=False,
    upload_adds_photo=False,
    imitates_original=True,
    code_in_xml=False,
    response_root="apiResponse",
    says_done=True,
    shape=Shape(photo_item="photoUrl", tag_item="tag", list_root="pets"),
    flows=("token",),
)

BEHAVIOURS = {"standard": STANDARD, "live": LIVE}


def behaviour_named(name: str | Behaviour) -> Behaviour:
    """The behaviour of a profile, or the one that is given. Raises SettingsError for an unknown
    name.
    """
    if isinstance(name, Behaviour):
        return name
    if name in BEHAVIOURS:
        return BEHAVIOURS[name]
    raise SettingsError(
        f"the sandbox has no profile {name!r}", hint=f"It has: {', '.join(BEHAVIOURS)}."
    )
