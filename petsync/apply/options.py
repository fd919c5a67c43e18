"""The options for applying a plan and for uploading images, with their help and their checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict

import msgspec

from petsync._options import Option, reject_unknown
from petsync.errors import SettingsError
from petsync.models import as_int64

__all__ = [
    "ApplyKeywords",
    "ApplyOptions",
    "Recheck",
    "UploadKeywords",
    "UploadOptions",
    "as_number",
    "check_keywords",
]


Recheck = Literal["each", "bulk", "none"]
"""How pets are read again before they are changed.

"each": each pet just before its change; "bulk": all pets once at the start; "none": not at all, for
measurements only.
"""

_MAX_CHANGES, _MAX_UPLOADS = 128, 64
"""The maxima of `concurrency`."""
_MAX_SETTLE_S = 3600
_EXTRA_INTENTS = 16
_Rate = Annotated[
    float | None, Option(help="The maximum number of requests per second.", metavar="N")
]


class ApplyKeywords(TypedDict, total=False):
    """The keywords of `Store.apply` and `Store.resume`: fields of ApplyOptions."""

    concurrency: Annotated[
        int | None,
        Option(
            help="The maximum number of changes at the same time; fewer while the service is slow "
            "or refuses requests.",
            default="16",
            metavar="N",
            least=1,
            most=_MAX_CHANGES,
        ),
    ]
    rate: _Rate
    verify: Annotated[bool | None, Option(help="Read every changed pet again and compare it.")]
    recheck: Annotated[
        Literal["each", "bulk"] | None,
        Option(
            help="Read each pet again just before its change (each), or all pets once at the start "
            "(bulk), which is faster. For a plan made from single look-ups, bulk means each.",
            default="each",
        ),
    ]
    max_failures: Annotated[
        int | None,
        Option(
            help="Stop the run after more failed changes than this; it can be resumed.",
            default="no limit",
            metavar="N",
            least=0,
        ),
    ]
    settle: Annotated[
        float | None,
        Option(
            help="How many seconds to wait before an add without an id is sent again, if it got no "
            "answer and its pet is not in the store.",
            default="the timeout, 30",
            metavar="SECONDS",
            least=0,
            most=_MAX_SETTLE_S,
        ),
    ]


class UploadKeywords(TypedDict, total=False):
    """The keywords of `Store.upload`: fields of UploadOptions."""

    concurrency: Annotated[
        int | None,
        Option(
            help="The number of pets whose pictures are uploaded at the same time.",
            default="4",
            metavar="N",
            least=1,
            most=_MAX_UPLOADS,
        ),
    ]
    rate: _Rate
    settle: Annotated[
        float | None,
        Option(
            help="How long to wait before an upload without an answer is sent again.",
            default="the timeout, 30",
            metavar="SECONDS",
            least=0,
            most=_MAX_SETTLE_S,
        ),
    ]


class _SendOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options for sending many requests. Times are in seconds. Raises SettingsError for an
    invalid value.
    """

    max_concurrency: ClassVar[int]
    concurrency: int
    rate: float | None = None
    """The maximum number of requests per second."""
    settle: float = 30.0
    """How long a request that got no response may still be processed by the service."""
    grace: float = 1.5
    """How long a stopped run waits for requests in flight."""

    def __post_init__(self) -> None:
        concurrency = as_int64(self.concurrency)
        if concurrency is None or not 1 <= concurrency <= self.max_concurrency:
            text = f"concurrency is {self.concurrency!r}; it must be 1 to {self.max_concurrency}"
            raise SettingsError(text)
        rate = None if self.rate is None else as_number(self.rate)
        if self.rate is not None and (rate is None or rate <= 0):
            text = (
                f"rate is {self.rate!r}; it must be a number of requests per second greater than 0"
            )
            raise SettingsError(text)
        settle = as_number(self.settle)
        if settle is None or settle < 0:
            raise self._settle_error(self.settle)
        for name, value in {"concurrency": concurrency, "rate": rate, "settle": settle}.items():
            msgspec.structs.force_setattr(self, name, value)

    @classmethod
    def of(cls, saved: Mapping[str, Any], given: Mapping[str, Any]) -> Self:
        """Return the `saved` options, which come from a journal or are a store's defaults,
        overridden by the `given` options that are not None.
        """
        known = {name: saved[name] for name in cls.__struct_fields__ if name in saved}
        settle = as_number(given.get("settle"))
        # A saved `settle` may be the timeout, which has no maximum, so it is not checked.
        if settle is not None and settle > _MAX_SETTLE_S:
            raise cls._settle_error(given["settle"])
        return cls(**{**known, **{n: value for n, value in given.items() if value is not None}})

    @staticmethod
    def _settle_error(settle: object) -> SettingsError:
        return SettingsError(
            f"settle is {settle!r}; it must be a number of seconds from 0 to {_MAX_SETTLE_S}"
        )


class UploadOptions(_SendOptions, frozen=True, kw_only=True):
    """The options for uploading images.

    An upload that got no response is sent again if its pet has no new photo after `settle` seconds
    (after a crash, since the start of this run). It is not sent again if, according to the profile,
    the service does not add uploaded images to the pet's photos.
    """

    max_concurrency: ClassVar[int] = _MAX_UPLOADS
    concurrency: int = 4
    """The number of pets whose pictures are uploaded at the same time."""


class ApplyOptions(_SendOptions, frozen=True, kw_only=True):
    """The options for applying a plan.

    An add without an id that got no response counts as not made if the store does not have the pet
    `settle` seconds after the last attempt (after a crash, after the run was resumed).
    """

    max_concurrency: ClassVar[int] = _MAX_CHANGES
    concurrency: int = 16
    """The maximum number of changes at the same time."""
    verify: bool = False
    """If true, every changed pet is read back."""
    recheck: Recheck = "each"
    """How pets are read again before they are changed."""
    max_failures: int | None = None
    """The run stops after more failed changes than this; None for no limit."""
    failures_before_deletes: int = 0
    """No deletes are sent after more failed changes than this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.verify, bool):
            raise SettingsError(f"verify is {self.verify!r}; it must be True or False")
        _check_recheck(self.recheck, ("each", "bulk", "none"))
        limit = None if self.max_failures is None else as_int64(self.max_failures)
        if self.max_failures is not None and (limit is None or limit < 0):
            raise SettingsError(
                f"max_failures is {self.max_failures!r}; it must be a whole number, 0 or greater"
            )
        msgspec.structs.force_setattr(self, "max_failures", limit)

    @property
    def max_concurrent(self) -> int:
        """The maximum number of changes at the same time. A rate limit reduces it, so that each
        change is sent soon after its pet was read.
        """
        if self.rate is None:
            return self.concurrency
        return min(self.concurrency, max(1, int(self.rate / 4)))

    @property
    def max_started(self) -> int:
        """The maximum number of changes that are started but not finished.

        It exceeds `max_concurrent`, so that the intents of the next changes are already on disk
        when they can be sent; but not with a rate limit, or if each pet is read just before its
        change.
        """
        if self.recheck == "each" or self.rate is not None:
            return self.max_concurrent
        return self.max_concurrent + _EXTRA_INTENTS


def check_keywords(keywords: ApplyKeywords, function: str) -> None:
    """Raise TypeError for a keyword that the function does not have, and SettingsError for an
    invalid `recheck` ("none" is for internal use).
    """
    reject_unknown(keywords, function, ApplyKeywords)
    recheck: object = keywords.get("recheck")
    if recheck is not None:
        _check_recheck(recheck, ("each", "bulk"))


def _check_recheck(value: object, choices: Collection[str]) -> None:
    if not (isinstance(value, str) and value in choices):
        raise SettingsError(f"recheck is {value!r}; it must be 'each' or 'bulk'")


def as_number(value: object) -> int | float | None:
    """Return a finite number, such as one of numpy, as an `int` or a `float`; None for any other
    value.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    number = int(value) if isinstance(value, Integral) else float(value)
    return number if isfinite(number) else None
