"""Every error that petsync raises.

Each error says what happened and where, and what to do (`hint`). Most are also the builtin error
that Python programmers catch in such a case. `exit_code` is the exit code of the command.

    PetsyncError                        exit code
    ├── ApiError                        1   the service, one request
    │   ├── NotFoundError      KeyError          404
    │   ├── InvalidInputError  ValueError        400, 405, 406, 413, 414, 415, 422
    │   ├── AuthError          PermissionError   401, 403
    │   ├── DuplicateError     ValueError        409
    │   ├── RateLimitedError                     429
    │   ├── ServiceError                         5xx
    │   ├── TransportError     ConnectionError   no response, or an incomplete one
    │   ├── UnavailableError   ConnectionError   the service has been failing for too long
    │   ├── RedirectError                        3xx that petsync does not follow
    │   └── ResponseError      ValueError        a response that cannot be read
    ├── SettingsError          ValueError   64  an option, a variable or petsync.toml
    │   ├── MissingServiceError             64  no service is given
    │   └── ConfigurationError              64  petsync.toml, with all its mistakes
    ├── SheetError             ValueError   1   a spreadsheet that cannot be read or written
    │   └── FindingsError                   3   a sheet with findings, where none is allowed
    ├── PlanError              ValueError   1   a plan or a run that cannot be used
    │   ├── GuardError                      4   the guard refuses the plan
    │   └── StalePlanError                  5   the plan has already been applied
    ├── LockedError                         6   another run or process holds a lock
    └── InterruptedRunError                 7   stopped between two changes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

__all__ = [
    "ApiError",
    "AuthError",
    "ConfigurationError",
    "DuplicateError",
    "FindingsError",
    "GuardError",
    "InterruptedRunError",
    "InvalidInputError",
    "LockedError",
    "MissingServiceError",
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
    """The base of all errors: `message` describes the problem and its place, `hint` describes what
    to do (or is empty).
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class ApiError(PetsyncError):
    """One request failed.

    `operation` is its name in the interface (`"addPet"`), `pet_id` the pet's id, `status` the HTTP
    status (None without a response), and `service_message` the service's message.
    `may_have_happened` is true if the service may have executed the request.
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
    """The service answered 404: it has no such pet, or the base URL is wrong."""


class InvalidInputError(ApiError, ValueError):
    """The service refuses the request, or petsync rejects it before it is sent."""


class AuthError(ApiError, PermissionError):
    """The token is missing, wrong or expired, or lacks the scope that the operation needs."""


class DuplicateError(ApiError, ValueError):
    """The service answered 409 and changed nothing. For an add: a pet with this id exists."""


class RateLimitedError(ApiError):
    """There were too many requests. `retry_after` is in seconds, None if the service sent none."""

    retry_after: float | None = None


class ServiceError(ApiError):
    """The service failed (5xx). `retry_after` is in seconds, None if the service sent none."""

    retry_after: float | None = None


class TransportError(ApiError, ConnectionError):
    """No complete response arrived. `may_have_happened` is False if nothing was sent."""


class UnavailableError(ApiError, ConnectionError):
    """The service has been failing for too long, or asks for a long pause, so petsync refuses
    requests for a while. A run stops and can be resumed; `may_have_happened` refers to the request
    that failed with this error.
    """


class RedirectError(ApiError):
    """The service redirects to another origin, which must not get credentials, or in another way
    that petsync does not follow.
    """


class ResponseError(ApiError, ValueError):
    """The response is not what the operation promises."""


class SettingsError(PetsyncError, ValueError):
    """An option, an environment variable or petsync.toml has an invalid value."""

    exit_code = 64


class MissingServiceError(SettingsError):
    """No service is given: no argument, no environment variable and no petsync.toml names one."""


class Problem(NamedTuple):
    """One mistake in petsync.toml."""

    file: str
    line: int
    key: str
    """The path of the key, such as `jobs.catalogue.mode`; "" if the mistake is in no key."""
    message: str
    suggestion: str
    """What to write instead; "" if that is not known."""

    def __str__(self) -> str:
        where = (
            f"{self.file}:{self.line}: {self.key}: " if self.key else f"{self.file}:{self.line}: "
        )
        return f"{where}{self.message}"


class ConfigurationError(SettingsError):
    """petsync.toml has mistakes; `problems` lists all of them in the order of the file."""

    def __init__(self, message: str, problems: Sequence[Problem] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class SheetError(PetsyncError, ValueError):
    """A spreadsheet cannot be read or written. Problems in single rows are findings instead."""


class FindingsError(SheetError):
    """The sheet has findings, and the caller accepts none; or a value of an edit is invalid."""

    exit_code = 3


class PlanError(PetsyncError, ValueError):
    """A plan cannot be made, read or applied, or a run cannot be found or resumed."""


class GuardError(PlanError):
    """The guard refuses the plan, or an export has lost ids or a header. Nothing was changed."""

    exit_code = 4


class StalePlanError(PlanError):
    """The plan has already been applied; a plan can be applied only once."""

    exit_code = 5


class LockedError(PetsyncError):
    """Another run or process is using the store, the job or the stored sign-in."""

    exit_code = 6


class InterruptedRunError(PetsyncError):
    """The run was stopped between two changes; its journal and `report` contain the changes that it
    made.
    """

    exit_code = 7
    report: object = None


def __dir__() -> list[str]:
    return sorted(__all__)
