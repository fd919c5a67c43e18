"""petsync.toml files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from petsync.config.load import load
from petsync.config.model import Configuration

__all__ = ["JOB", "configured", "file_with"]

JOB = """\
url = "https://shop.example/v2"

[jobs.catalogue]
mode = "two-way"
sheet = "catalogue.xlsx"
"""


def file_with(folder: Path, text: str) -> Path:
    """Write a petsync.toml with this text, and return its path."""
    path = folder / "petsync.toml"
    path.write_text(text, encoding="utf-8")
    return path


def configured(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Configuration:
    """Return the configuration of a petsync.toml with this text."""
    return load(file_with(folder, text), environ or {})
