"""petsync.toml as the tests of it write it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from petsync.reconcile.config.load import load
from petsync.reconcile.config.model import Configuration

__all__ = ["JOB", "configured", "file_with"]

JOB = """\
url = "https://shop.example/v2"

[jobs.catalogue]
mode = "two-way"
sheet = "catalogue.xlsx"
"""


def file_with(folder: Path, text: str) -> Path:
    """A petsync.toml of that text."""
    path = folder / "petsync.toml"
    path.write_text(text, encoding="utf-8")
    return path


def configured(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Configuration:
    """The configuration of a petsync.toml of that text."""
    return load(file_with(folder, text), environ or {})
