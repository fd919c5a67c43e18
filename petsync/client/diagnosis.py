"""Diagnosis: what a service was found to do, and where that is not what the profile says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from petsync.profile import PROFILES, ServiceProfile

__all__ = ["READABLE", "Check", "Diagnosis", "Facts", "Verdict"]

Verdict = Literal["fits", "noted", "differs", "fails", "untold"]

READABLE = (
    "array_style",
    "one_value_a_query",
    "unknown_status",
    "statuses",
    "xml_tag_item",
    "xml_photo_item",
    "media",
)
"""The fields of a profile that reading alone tells something of."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `fits`: as the profile says; `noted`: worth knowing;
    `differs`: not as the profile says, and petsync copes; `fails`: petsync would go wrong;
    `untold`: it could not be seen.
    """

    topic: str
    verdict: Verdict
    found: str


@dataclass(slots=True, kw_only=True)
class Facts:
    """What was seen of the profile's fields; None where nothing was."""

    arrays: frozenset[str] | None = None
    """The ways in which several values of a query parameter are understood: csv, multi."""
    unknown_status: Literal["invalid", "empty"] | None = None
    xml_tag_item: str | None = None
    xml_photo_item: str | None = None
    media: frozenset[str] = frozenset()
    """The representations that pets were sent in: json, xml."""

    def overrides(self, profile: ServiceProfile) -> dict[str, Any]:
        """The fields in which the profile is not what was seen, as the service has them."""
        found: dict[str, Any] = {}
        if self.arrays is not None and not profile.one_value_a_query:
            found |= _array(self.arrays, profile)
        for name in ("unknown_status", "xml_tag_item", "xml_photo_item"):
            seen = getattr(self, name)
            if seen is not None and seen != getattr(profile, name):
                found[name] = seen
        if self.media and profile.media not in self.media:
            found["media"] = min(self.media)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The checks, and the numbers beside them: pets by status, requests sent (all of them GETs),
    and the median time of an answer in seconds.
    """

    url: str
    profile: ServiceProfile
    checks: tuple[Check, ...]
    facts: Facts
    pets: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    seconds: float = 0.0

    @property
    def works(self) -> bool:
        """Whether nothing was found with which petsync would go wrong."""
        return all(check.verdict != "fails" for check in self.checks)

    @property
    def overrides(self) -> Mapping[str, Any]:
        """What `[service]` in petsync.toml should say."""
        return self.facts.overrides(self.profile)

    @property
    def suggested_profile(self) -> str | None:
        """A profile that fits all that was seen, where the chosen one does not."""
        if not self.overrides:
            return None
        return next((n for n, p in PROFILES.items() if not self.facts.overrides(p)), None)


def _array(understood: frozenset[str], profile: ServiceProfile) -> dict[str, Any]:
    if profile.array_style in understood:
        return {}
    return {"array_style": min(understood)} if understood else {"one_value_a_query": True}
