"""What a service said, with secrets in it: it shows no more than the names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Said", "Values"]


class Values(dict[str, Any]):
    """Names and values; a verbose traceback shows the names alone."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: its status, and its JSON object where it is one."""

    status: int
    json: Values | None
