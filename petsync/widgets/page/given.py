"""What the page's server tells its kernels: where they work, and with which options."""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, field

__all__ = ["Given", "taken"]

_GIVEN = "PETSYNC_PAGE"
_TOKEN = "PETSYNC_TOKEN"  # noqa: S105 - a name
_REQUEST = ("VOILA_REQUEST_URL", "QUERY_STRING", "HTTP_COOKIE", "HTTP_REFERER")
"""What Voilà tells of the request, the page's token among it."""


@dataclass(frozen=True, slots=True)
class Given:
    """`folder` is where petsync was started, with which `umask`; `options` are `connect`'s, without
    any secret.
    """

    folder: str
    options: dict[str, object] = field(default_factory=dict)
    umask: int = 0o077

    def put(self, environ: MutableMapping[str, str], token: str | None) -> None:
        """Tell it to the processes that get this environment."""
        environ[_GIVEN] = json.dumps(asdict(self))
        if token is not None:
            environ[_TOKEN] = token


def taken(environ: MutableMapping[str, str] = os.environ) -> Given:
    """What the server told, and no more of it in the environment."""
    said = json.loads(environ.pop(_GIVEN, "{}"))
    for name in _REQUEST:
        environ.pop(name, None)
    return Given(**{"folder": ".", **said})
