"""Every error that petsync raises.

Each one says what happened, where, and the way out (`hint`); each is also the builtin that a
Python programmer would catch for it, and carries the exit code its command ends with.

    PetsyncError                        exit code
    ├── ApiError                        1   the service, one request
    │   ├── NotFoundError      KeyError          404
    │   ├── InvalidInputError  ValueError        400, 405, 406, 413, 415, 422
    │   ├── AuthError          PermissionError   401, 403
    │   ├── DuplicateError     ValueError        409
    │   ├── RateLimitedError                     429
    │   ├── ServiceError                         5xx
    │   ├── TransportError     ConnectionError   no answer, or half of one
    │   ├── UnavailableError   ConnectionError   the service has been failing for too long
    │   ├── RedirectError                        3xx to another origin
    │   └── ResponseError      ValueError        an answer that cannot be read
    ├── SettingsError          ValueError   64  an option, a variable or petsync.toml
    │   └── ConfigurationError              64  petsync.toml, with all of its mistakes
    ├── SheetError             ValueError   1   a spreadsheet that cannot be read or written
    │   └── FindingsError                   3   a sheet with findings, where none is tolerated
    ├── PlanError              ValueError   1   a plan file that cannot be used
    │   ├── GuardError                      4   the plan is over a limit
    │   ├── StalePlanError                  5   the plan was applied already
    │   └── ConflictError                   5   the pet is not as the plan saw it
    ├── LockedError                         6   another run is at work on this store
    └── InterruptedRunError                 7   stopped at a change's boundary
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

__all__ = [
    "ApiError",
    "AuthError",
    "ConfigurationError",
    "ConflictError",
    "DuplicateError",
    "FindingsError",
    "GuardError",
    "InterruptedRunError",
    "InvalidInputError",
    "LockedError",
    "NotFoundError",
    "PetsyncError",
    "PlanError",
    "RateLimitedError",
    "RedirectError",
    "ResponseError",
    "ServiceError",
    "SettingsError",
    "SheetError",
    "StalePlanError",
    "TransportError",
    "UnavailableError",
]


class PetsyncError(Exception):
    """The root of the tree: `message` says what and where, `hint` the way out (may be empty)."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class ApiError(PetsyncError):
    """One request failed.

    `operation` is the interface's name (`"addPet"`), `pet_id` the pet it was about, `status` the
    HTTP status or None where no answer came, `service_message` what the service said, and
    `may_have_happened` whether the service may have carried the request out all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        pet_id: int | None = None,
        status: int | None = None,
        service_message: str = "",
        may_have_happened: bool = False,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.operation = operation
        self.pet_id = pet_id
        self.status = status
        self.service_message = service_message
        self.may_have_happened = may_have_happened


class NotFoundError(ApiError, KeyError):
    """The service knows no such pet."""


class InvalidInputError(ApiError, ValueError):
    """The service, or petsync before it, refuses what was sent."""


class AuthError(ApiError, PermissionError):
    """No token, a wrong or expired one, or one without the scope that the operation needs."""


class DuplicateError(ApiError, ValueError):
    """A pet with that id is there already; nothing was changed."""


class RateLimitedError(ApiError):
    """Too many requests. `retry_after` is in seconds, None where the service did not say."""

    retry_after: float | None = None


class ServiceError(ApiError):
    """The service failed (5xx). `retry_after` is in seconds, None where it did not say."""

    retry_after: float | None = None


class TransportError(ApiError, ConnectionError):
    """No whole answer came. `may_have_happened` is False only where nothing can have been sent."""


class UnavailableError(ApiError, ConnectionError):
    """The service has been failing for so long that no more is sent to it for now. A run stops at
    it, and can be resumed; `may_have_happened` is about the request that met it.
    """


class RedirectError(ApiError):
    """The service points to another origin; credentials are not sent there."""


class ResponseError(ApiError, ValueError):
    """An answer came that is not what the operation promises."""


class SettingsError(PetsyncError, ValueError):
    """An option, an environment variable or petsync.toml holds a value that cannot be used."""

    exit_code = 64


class Problem(NamedTuple):
    """One mistake in petsync.toml: where it is (`key` is the path of a key, such as
    `jobs.catalogue.mode`), what is wrong, and what to write instead ("" where that is open).
    """

    file: str
    line: int
    key: str
    message: str
    suggestion: str

    def __str__(self) -> str:
        where = (
            f"{self.file}:{self.line}: {self.key}: " if self.key else f"{self.file}:{self.line}: "
        )
        return f"{where}{self.message}"


class ConfigurationError(SettingsError):
    """petsync.toml has mistakes; `problems` are all of them, in the order of the file."""

    def __init__(self, message: str, problems: Sequence[Problem] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class SheetError(PetsyncError, ValueError):
    """A spreadsheet cannot be read or written as a whole (its rows' problems are findings)."""


class FindingsError(SheetError):
    """The sheet has findings, and the caller tolerates none."""

    exit_code = 3


class PlanError(PetsyncError, ValueError):
    """A plan cannot be made, read or applied."""


class GuardError(PlanError):
    """The plan passes a limit, and nothing was sent."""

    exit_code = 4


class StalePlanError(PlanError):
    """The plan was applied already; a plan is used once."""

    exit_code = 5


class ConflictError(PlanError):
    """The store moved away from what the plan saw."""

    exit_code = 5


class LockedError(PetsyncError):
    """Another run is at work on the same store and state folder."""

    exit_code = 6


class InterruptedRunError(PetsyncError):
    """The run was stopped at a change's boundary; what it did is in its journal and `report`."""

    exit_code = 7
    report: object = None


def __dir__() -> list[str]:
    return sorted(__all__)
