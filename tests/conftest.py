"""What holds for every test."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# Started in the background by a script, the tests would inherit that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine may be slow, which is no failure; in CI the same examples are drawn each time.
settings.register_profile("petsync", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("petsync")
