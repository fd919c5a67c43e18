"""Texts that are compared, cut so that where they differ stays in sight."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from petsync.render.visible import shorten

__all__ = ["fitted"]

_CUT = "..."
_LEAD = 6
"""So many characters stay in front of a difference."""


def fitted(texts: Sequence[str], width: int) -> list[str]:
    """Each visible text in at most `width` cells; of those too long, first what all begin with
    alike is cut.
    """
    over = max((cell_len(text) for text in texts), default=0) - width
    if over <= 0:
        return list(texts)
    different = list(dict.fromkeys(texts))
    alike = _alike(different) if len(different) > 1 else 0
    cut = min(over + len(_CUT), alike - _LEAD)
    return [shorten(_without_head(text, cut), width) for text in texts]


def _alike(texts: Sequence[str]) -> int:
    """How many characters the texts begin with alike."""
    columns = zip(*texts, strict=False)
    differ = (n for n, column in enumerate(columns) if any(c != column[0] for c in column))
    return next(differ, min(map(len, texts)))


def _without_head(text: str, cut: int) -> str:
    return f"{_CUT}{text[cut:]}" if cut > len(_CUT) else text
