"""Styles and scripts that a page carries inside itself, and the hashes that allow no others."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

__all__ = ["asset", "script", "source_hash", "style"]


@cache
def asset(name: str) -> str:
    """The text of a file in the `assets` folder."""
    return "\n" + files(__package__).joinpath("assets", name).read_text("utf-8")


def style(name: str) -> str:
    """`<style>` with this asset."""
    return f"<style>{asset(name)}</style>"


def script(name: str) -> str:
    """`<script>` with this asset."""
    return f"<script>{asset(name)}</script>\n"


def source_hash(name: str) -> str:
    """What a content security policy calls the style or script of this asset."""
    digest = hashlib.sha256(asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
