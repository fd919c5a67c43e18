"""The error classes of petsync.

`message` says what happened and where, and `hint` what to do. Most classes are also subclasses of
the builtin error that Python programmers expect in this case. `exit_code` is the exit code of a
command that ends with the error.

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
    │   ├── MissingExtraError  ImportError  64  packages that are not installed
    │   └── ConfigurationError              64  petsync.toml, with all its mistakes
    ├── SheetError             ValueError   1   a spreadsheet that cannot be read or written
    │   └── FindingsError                   3   a sheet with findings, where none is allowed
    ├── PlanError              ValueError   1   a plan or a run that cannot be used
    │   ├── GuardError                      4   the guard refuses the plan
    │   └── StalePlanError                  5   the plan has already been applied, or is outdated
    ├── LockedError                         6   another run or process holds a lock
    └── InterruptedRunError                 7   the run was stopped
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from petsync._terms import in_python

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
    "MissingExtraError",
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
    """The base class of petsync's errors: `message` describes the problem and its place, and `hint`
    says what to do in Python, or is empty.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.problem, self.cure = message, hint
        """The message and the hint for every front end, with options of commands and arguments of
        Python.
        """

    @property
    def message(self) -> str:
        return in_python(self.problem)

    @property
    def hint(self) -> str:
        return in_python(self.cure)

    @property
    def text(self) -> str:
        """The message and the hint, for a file that a shell and Python read."""
        return f"{self.problem}\n{self.cure}" if self.cure else self.problem

    def __str__(self) -> str:
        return in_python(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"


class ApiError(PetsyncError):
    """One request failed.

    `operation` is the operation's name in the API (`"addPet"`), `pet_id` the pet's id or None,
    `status` the HTTP status (None without a response), and `service_message` the service's message.
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
    """The token is missing, invalid or expired, or lacks a scope that the operation needs; or a
    sign-in failed.
    """


class DuplicateError(ApiError, ValueError):
    """The service answered 409 and changed nothing. For an add: a pet with this id exists."""


class RateLimitedError(ApiError):
    """There were too many requests. `retry_after` is in seconds, or None."""

    retry_after: float | None = None


class ServiceError(ApiError):
    """The service failed (5xx). `retry_after` is in seconds, or None.

    `is_page` is true if the response is a page or a plain text, which a gateway may have written.
    """

    retry_after: float | None = None
    is_page = False


class TransportError(ApiError, ConnectionError):
    """No complete response arrived. `may_have_happened` is False if nothing was sent.

    `is_without_tls` is true if the address begins with https, and its port does not use TLS.
    """

    is_without_tls = False


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
    """The response is not valid for the operation, so petsync cannot read it."""


class SettingsError(PetsyncError, ValueError):
    """A setting is invalid or missing: an option, an environment variable or petsync.toml."""

    exit_code = 64


class MissingServiceError(SettingsError):
    """No service is given: neither an argument nor an environment variable nor petsync.toml names
    one.
    """


class MissingExtraError(SettingsError, ImportError):
    """The call needs an extra of petsync, which is not installed."""


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
    """petsync.toml has mistakes, which `problems` lists in the order of the file, or cannot be
    used.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class SheetError(PetsyncError, ValueError):
    """A spreadsheet or another output file cannot be read or written. Problems in single rows are
    findings instead.
    """


class FindingsError(SheetError):
    """The sheet has findings, and `strict` is set; or a value of `Store.edit` is invalid."""

    exit_code = 3


class PlanError(PetsyncError, ValueError):
    """A plan cannot be made, read or applied, or a run cannot be found or resumed."""


class GuardError(PlanError):
    """The guard refuses the plan, or the sheet has lost its ids or the header of a column. Nothing
    was changed by this call.
    """

    exit_code = 4


class StalePlanError(PlanError):
    """The plan has already been applied, or the sheet that it changes was edited after the plan was
    made.
    """

    exit_code = 5


class LockedError(PetsyncError):
    """Another run or process is using the store, the job or the stored sign-in, or a run is still
    active.
    """

    exit_code = 6


class InterruptedRunError(PetsyncError):
    """The run was stopped. `report` contains the results so far, or is None."""

    exit_code = 7
    report: object = None


def __dir__() -> list[str]:
    return sorted(__all__)
