"""The configuration that the page's server passes to its kernels.

The server does not import the forms, and the kernels do not import the server: each import takes a
second. Both import this module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from petsync.settings import Secret

__all__ = ["AppConfig", "take_config"]


_GIVEN = "PETSYNC_PAGE"
_TOKEN = "PETSYNC_TOKEN"  # noqa: S105 - a name
_REQUEST = ("VOILA_REQUEST_URL", "QUERY_STRING", "HTTP_COOKIE", "HTTP_REFERER")
"""The variables with which Voilà passes the request, including the page's token."""


@dataclass(frozen=True, slots=True)
class AppConfig:
    """The configuration that the server passes to its kernels. `folder` and `umask` are those with
    which petsync was started; `options` are the options of `connect`, without secrets.
    """

    folder: str
    options: dict[str, object] = field(default_factory=dict)
    umask: int = 0o077

    @contextmanager
    def export_to(self, environ: MutableMapping[str, str], token: str | None) -> Iterator[None]:
        """Put the configuration and the token into `environ` for child processes, until the end of
        the block.
        """
        formers = {name: Secret(environ[name]) for name in (_GIVEN, _TOKEN) if name in environ}
        try:
            environ[_GIVEN] = json.dumps(asdict(self))
            if token is not None:
                environ[_TOKEN] = token
            yield
        finally:
            for name in (_GIVEN, _TOKEN):
                environ.pop(name, None)
            environ.update((name, former.reveal()) for name, former in formers.items())


def take_config(environ: MutableMapping[str, str] = os.environ) -> AppConfig:
    """Return the server's configuration; remove it and the variables of Voilà's request from
    `environ`.
    """
    options = json.loads(environ.pop(_GIVEN, "{}"))
    for name in _REQUEST:
        environ.pop(name, None)
    return AppConfig(**{"folder": ".", **options})
