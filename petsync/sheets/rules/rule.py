"""Rule: one thing that can be wrong with a sheet, and all that is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Rule", "error", "warning"]

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. An `error` keeps its row out of a plan, a `warning` does not.

    `meaning` is one sentence, and the finding's problem where nothing more exact can be said;
    `cure` is its suggestion likewise. `example` shows what breaks the rule, `mended` the same
    when it has been mended. `more` is what only the documentation tells.
    """

    code: str
    severity: Severity
    meaning: str
    example: str
    mended: str
    cure: str
    more: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the row is kept out of a plan."""
        return self.severity == "error"


def error(code: str, meaning: str, example: str, mended: str, cure: str, more: str = "") -> Rule:
    """A rule that blocks the row that breaks it."""
    return _rule("error", code, meaning, example, mended, cure, more)


def warning(code: str, meaning: str, example: str, mended: str, cure: str, more: str = "") -> Rule:
    """A rule that tells how a cell was read."""
    return _rule("warning", code, meaning, example, mended, cure, more)


def _rule(severity: Severity, code: str, *said: str) -> Rule:
    meaning, example, mended, cure, more = said
    return Rule(
        code=code,
        severity=severity,
        meaning=meaning,
        example=example,
        mended=mended,
        cure=cure,
        more=more,
    )
