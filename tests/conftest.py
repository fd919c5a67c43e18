"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import settings

# A shared machine may be slow, which is no failure; in CI the same examples are drawn each time.
settings.register_profile("petsync", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("petsync")
