"""How the copy answers: a service's profile as the sandbox's behaviour."""

from __future__ import annotations

from dataclasses import replace

from petsync.profile import ServiceProfile
from petsync.sandbox.behaviour import BEHAVIOURS, STANDARD, Behaviour

__all__ = ["imitated"]

_STRICT = frozenset({"name", "photo_urls"})


def imitated(profile: ServiceProfile) -> tuple[Behaviour, tuple[str, ...]]:
    """The behaviour that comes nearest to the profile, and a sentence for each of its settings
    that the sandbox cannot imitate.

    The copy gives no id to two pets: whether the service does is a matter of moments.
    """
    behaviour = replace(
        BEHAVIOURS.get(profile.name, STANDARD),
        name=profile.name,
        put_creates=profile.update_unknown == "creates",
        post_replaces=profile.add_existing == "replaces",
        unique_ids=True,
        capacity=profile.capacity,
        first_value_only=profile.one_value_a_query,
        statuses=None if profile.any_status else frozenset(profile.statuses),
        strict_pets=set(profile.required) >= _STRICT,
        upload_needs_pet=profile.upload_needs_pet,
        upload_adds_photo=profile.upload_adds_photo,
    )
    return behaviour, _beyond(profile)


def _beyond(profile: ServiceProfile) -> tuple[str, ...]:
    # The sandbox requires just name and photoUrls of a pet, or nothing.
    required = set(profile.required)
    unasked = sorted(required - _STRICT if required >= _STRICT else required)
    if not unasked:
        return ()
    lacking = " and ".join(unasked)
    said = f"The copy takes pets without {lacking}, which the service's profile says are required"
    return (f"{said}: the store may refuse what the copy took.",)
