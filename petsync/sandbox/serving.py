"""serve: the sandbox as a program of its own, until it is told to stop."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from petsync.model import Pet
from petsync.sandbox import address
from petsync.sandbox.clients import Credentials
from petsync.sandbox.server import Options, Running

__all__ = ["ServedInfo", "serve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedInfo:
    """What a person needs to use the server that has just begun to answer.

    `url` is the base URL and ends in /v2, `pets` how many there are, `db` the store's file or
    None where it ends with the server; `warnings` are to be shown. The secrets are new with every
    start, and worth nothing where `auth` is False.
    """

    url: str
    openapi_url: str
    profile: str
    auth: bool
    db: Path | None
    pets: int
    client_id: str
    client_secret: str = field(repr=False)
    api_key: str = field(repr=False)
    warnings: tuple[str, ...] = ()


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    db: Path | None = None,
    profile: str = "standard",
    auth: bool = True,
    seed: Path | None = None,
    pets: Sequence[Pet] = (),
    faults: str | None = None,
    token_lifetime: float = 3600.0,
    credentials: Credentials | None = None,
    on_ready: Callable[[ServedInfo], None] = lambda _: None,
) -> None:
    """Answer until Ctrl-C or SIGTERM (in the main thread), then return.

    `on_ready` is called once, when the server answers. With `db` the store and its tokens outlive
    the server. Raises SettingsError before that: for a port in use, a file that is no store, a
    seed that is no list of pets, an unknown profile, faults that cannot be read.
    """
    options = Options(
        host=host,
        port=port,
        profile=profile,
        auth=auth,
        seed=seed,
        pets=tuple(pets),
        faults=faults,
        token_lifetime=token_lifetime,
        credentials=credentials or Credentials(),
    )
    with ExitStack() as held:
        folder = None if db else held.enter_context(tempfile.TemporaryDirectory(prefix="petsync-"))
        running = Running(options, db or Path(folder or "") / "sandbox.db", durable=db is not None)
        held.callback(running.close)
        running.run(lambda: on_ready(_info(running, options, db)))


def _info(running: Running, options: Options, db: Path | None) -> ServedInfo:
    service = running.service
    count = service.storage.reader.execute("SELECT count(*) FROM pet").fetchone()[0]
    return ServedInfo(
        url=service.url,
        openapi_url=f"{service.origin}/openapi.json",
        profile=service.behaviour.name,
        auth=options.auth,
        db=db,
        pets=count,
        client_id=options.credentials.client_id,
        client_secret=options.credentials.client_secret,
        api_key=options.credentials.api_key,
        warnings=address.warnings(options.host, auth=options.auth),
    )
