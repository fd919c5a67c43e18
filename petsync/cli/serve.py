"""`petsync serve`: the embedded pet store, as a program of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync._file import make_state_folder
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.errors import SettingsError
from petsync.profile import profile_from

if TYPE_CHECKING:
    from petsync.model import Pet
    from petsync.sandbox import ServedInfo

__all__ = ["command"]

_EXAMPLES = """
petsync serve
petsync serve --no-auth --port 8123 --db store.db --seed pets.json
petsync serve --profile live --faults 429=0.02,drop_after=0.01,seed=7
petsync serve --no-auth --faults limit=200,latency=0.05
"""


@as_command("serve", examples=_EXAMPLES)
@click.option("--host", default="127.0.0.1", help="The address to listen on.  [127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    metavar="N",
    help="The port; 0 takes a free one.  [8080]",
)
@click.option(
    "--db",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file that keeps the store.  [store.db in --state]",
)
@click.option("--auth/--no-auth", default=True, help="Whether to ask for tokens.  [--auth]")
@click.option(
    "--seed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A JSON list of pets for a new store.  [the sample catalogue]",
)
@click.option(
    "--faults", metavar="SPEC", help="Break answers, by seed, or keep a limit: see the examples."
)
@click.pass_obj
def command(
    context: Context,
    host: str,
    port: int,
    db: Path | None,
    auth: bool,
    seed: Path | None,
    faults: str | None,
) -> int:
    """Run a pet store on this machine, for trying things out.

    It answers all eight operations in JSON and XML under /v2 until Ctrl-C, and behaves as
    --profile says. What is written survives even kill -9, and is there at the next start. A new
    store begins with the sample catalogue, or with the first 500 of its pets under the profile
    live, which keeps 1,000. The client secret and the api key are made up at each
    start, and shown.
    """
    from petsync.sandbox import serve

    settings = context.settings
    file = db or _kept_in(settings.state)
    serve(
        host=host,
        port=port,
        db=file,
        profile=settings.profile,
        auth=auth,
        seed=seed,
        pets=() if seed or file.exists() else _sample(settings.profile),
        faults=faults,
        on_ready=lambda info: _tell(context, info),
    )
    return 0


def _sample(profile: str) -> list[Pet]:
    """The sample catalogue; half of what a service keeps, where that is limited, so that pets can
    be added.
    """
    from petsync.samples import sample_data
    from petsync.wire import json

    pets = json.decode_pets((sample_data() / "store.json").read_bytes())
    capacity = profile_from(profile).capacity
    return pets if capacity is None else pets[: capacity // 2]


def _kept_in(state: Path) -> Path:
    try:
        make_state_folder(state)
    except OSError as error:
        raise SettingsError(
            f"the folder {state} cannot be made: {error.strerror}",
            hint="Name another one with --state, or the store's file with --db.",
        ) from None
    return state / "store.db"


def _tell(context: Context, info: ServedInfo) -> None:
    for warning in info.warnings:
        context.say(f"warning: {warning}", "bold yellow")
    pets = "1 pet" if info.pets == 1 else f"{info.pets:,} pets"
    context.say(f"A pet store with {pets} answers at {info.url}", "bold green")
    context.say(f"  profile {info.profile}, kept in {info.db}")
    context.say(f"  {info.openapi_url} describes it")
    if info.auth:
        _tell_secrets(context, info)
    else:
        context.say("  it asks for no token")
    context.say("Ctrl-C ends it.")
    if context.as_json:
        names = ("url", "openapi_url", "profile", "auth", "pets")
        secrets = ("client_id", "client_secret", "api_key") if info.auth else ()
        said = {name: getattr(info, name) for name in (*names, *secrets)}
        context.show_json({**said, "db": str(info.db)})


def _tell_secrets(context: Context, info: ServedInfo) -> None:
    origin = info.url.removesuffix("/v2")
    context.say(f"  client id {info.client_id}, secret {info.client_secret}")
    context.say(f"  api key {info.api_key}")
    context.say("Sign in with your browser:")
    only = " --profile live --implicit" if info.profile == "live" else ""
    context.say(f"  petsync login --url {info.url}{only}", fold=False)
    context.say("Or take a token for an hour, and put its access_token into PETSYNC_TOKEN:")
    context.say(
        f"  curl -s -u {info.client_id}:{info.client_secret} "
        f"-d grant_type=client_credentials {origin}/oauth/token",
        fold=False,
    )
