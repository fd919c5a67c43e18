"""The sample data: a shop's catalogue, and edited sheets (sample_data/README.md)."""

from __future__ import annotations

from pathlib import Path

__all__ = ["sample_data"]


def sample_data() -> Path:
    """Return the folder of the sample files: inside an installed petsync, or beside its source."""
    folder = Path(__file__).resolve().parent
    installed = folder / "_sample_data"
    return installed if installed.is_dir() else folder.parent / "sample_data"
