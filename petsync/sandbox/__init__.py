"""The embedded pet store: all eight operations, for trying out, tests and rehearsals.

`Sandbox` runs one in a thread on a free loopback port; `serve` is the program. It shares the
resources, their representations and the errors with the rest of petsync, and nothing else.
"""

from __future__ import annotations

from petsync.sandbox.clients import PUBLIC_CLIENT, Credentials
from petsync.sandbox.embedded import Sandbox
from petsync.sandbox.serving import ServedInfo, serve

__all__ = ["PUBLIC_CLIENT", "Credentials", "Sandbox", "ServedInfo", "serve"]
