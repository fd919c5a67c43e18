"""Two sides' texts beside each other, in a sentence."""

from __future__ import annotations

from petsync.diff.change import Clash

__all__ = ["both_sides"]

_SHOWN = 60


def both_sides(clash: Clash) -> str:
    """`name (sheet: 'Rex', store: 'Max')`; long texts from where they begin to differ."""
    sheet, store = clash.sheet, clash.store
    if max(len(sheet), len(store)) <= _SHOWN:
        return f"{clash.column} (sheet: {_shown(sheet, 0)}, store: {_shown(store, 0)})"
    pairs = enumerate(zip(sheet, store, strict=False))
    alike = next((n for n, (a, b) in pairs if a != b), min(len(sheet), len(store)))
    return f"{clash.column} (sheet: {_shown(sheet, alike)}, store: {_shown(store, alike)})"


def _shown(text: str, alike: int) -> str:
    start = max(0, alike - _SHOWN // 4)
    part = " | ".join(text[start : start + _SHOWN].splitlines())
    cut = "…" if start else "", "…" if len(text) > start + _SHOWN else ""
    return f"'{cut[0]}{part}{cut[1]}'" if text else "nothing"
