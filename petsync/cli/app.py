"""`petsync app`: the forms as a page in the browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.signals import loading
from petsync.errors import SettingsError

__all__ = ["command"]

_EXAMPLES = """
petsync app
petsync app --url https://shop.example/v2
petsync app --no-browser --port 8866
"""


@as_command("app", examples=_EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.  [a free one]",
)
@click.option("--no-browser", is_flag=True, help="Only say the link, and open nothing.")
@click.option(
    "--theme",
    type=click.Choice(["light", "dark"]),
    default="light",
    help="How the page looks.  [light]",
)
@click.pass_obj
def command(context: Context, port: int, no_browser: bool, theme: str) -> int:
    """Do everything in the browser: sign in, open a sheet, review, apply, see the report.

    Listens on this machine only, and answers who has the link, which holds a token that is made
    up at each start. Works in the folder where it is started, until Ctrl-C. Needs the extra `app`.
    """
    if find_spec("voila") is None:
        raise SettingsError(
            "the page needs Voilà, which is not installed",
            hint="In petsync's folder: pip install -c .ci/constraints.txt '.[app]'",
        )
    context.settings  # noqa: B018 - what is wrong with them is said here, not on the page
    with loading():
        from petsync.widgets.page.given import Given
        from petsync.widgets.page.serving import open_browser, serve
    token = context.taken_token()
    given = Given(str(Path.cwd()), _options(context))
    files: list[Path] = []

    def ready(link: str) -> None:
        file = None if no_browser else open_browser(link)
        files.extend([] if file is None else [file])
        _tell(context, link)

    try:
        text = None if token is None else token.reveal()
        serve(port, given, token=text, theme=theme, on_ready=ready)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    context.say("Ended.")
    return 0


def _options(context: Context) -> dict[str, object]:
    return {
        "url": context.url,
        "profile": context.profile,
        "state": context.state,
        "allow_http": list(context.allow_http) or None,
    }


def _tell(context: Context, link: str) -> None:
    context.say("The page is at", "bold green")
    context.say(f"  {link}", fold=False)
    context.say("The link is for you alone: whoever has it works as you. Ctrl-C ends the page.")
    if context.as_json:
        context.show_json({"url": link})
