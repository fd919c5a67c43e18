"""RefusedError: an answer other than success, raised where it is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Original", "RefusedError"]

_KINDS = {
    400: "invalid_input",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "duplicate",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    503: "unavailable",
}


@dataclass(frozen=True, slots=True)
class Original:
    """How the original server words a refusal: the ApiResponse's fields.

    Without a `message` the answer has no body; `code` is the status where it is None.
    """

    message: str | None
    code: int | None = None
    kind: str = "unknown"


class RefusedError(Exception):
    """Ends a request with `status`; a job of the store raises it before it writes anything.

    `headers` are added to the answer's; `original` words it in the `live` profile, as `message`
    does where it is None.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        original: Original | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.original = original or Original(message)

    @property
    def kind(self) -> str:
        """The ApiResponse's `type`."""
        return _KINDS.get(self.status, "error")
