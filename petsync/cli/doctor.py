"""`petsync doctor`: what a service supports, by reading alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from petsync.cli.command import command as as_command
from petsync.cli.context import Context

if TYPE_CHECKING:
    from rich.text import Text

    from petsync.client.diagnosis import Check, Diagnosis
    from petsync.store import Store

__all__ = ["command"]

_STYLE = {
    "fits": ("ok", "green"),
    "noted": ("--", ""),
    "differs": ("!=", "yellow"),
    "fails": ("XX", "bold red"),
    "untold": ("??", "dim"),
}
_INDENT = 28
_EXAMPLES = """
petsync doctor --url https://shop.example/v2
petsync doctor --url http://127.0.0.1:8080/v2 --profile live --json
"""


@as_command("doctor", examples=_EXAMPLES)
@click.pass_obj
def command(context: Context) -> int:
    """Tell what the service supports, without writing anything.

    Sends GET requests only. Looks at the connection, the token, and at each thing that the
    interface leaves open and reading can show, compares it with --profile, and says what to put
    into petsync.toml where it differs. What only writing would show is left alone.

    Exits with 0 if petsync can work with the service as it is set up, else with 1.
    """
    import asyncio

    store = context.connect()
    with context.busy("Asking the service"):
        diagnosis = asyncio.run(_examine(store))
    if context.as_json:
        context.show_json(_document(diagnosis))
    else:
        _print(context, diagnosis)
    return 0 if diagnosis.works else 1


async def _examine(store: Store) -> Diagnosis:
    from petsync.client.probe import examine

    session = store.aio.api.session
    try:
        return await examine(session)
    finally:
        await session.close()


def _document(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "url": diagnosis.url,
        "profile": diagnosis.profile.name,
        "works": diagnosis.works,
        "requests": diagnosis.requests,
        "median_ms": round(diagnosis.seconds * 1000, 1),
        "pets": diagnosis.pets,
        "checks": [
            {"topic": check.topic, "verdict": check.verdict, "found": check.found}
            for check in diagnosis.checks
        ],
        "overrides": diagnosis.overrides,
        "suggested_profile": diagnosis.suggested_profile,
    }


def _print(context: Context, diagnosis: Diagnosis) -> None:
    out = context.out
    out.print(f"{diagnosis.url}, profile {diagnosis.profile.name}", style="bold", soft_wrap=True)
    for check in diagnosis.checks:
        for line in _lines(check, min(max(out.width, 60), 100)):
            out.print(line, soft_wrap=True)
    if diagnosis.seconds:
        sent = f"{diagnosis.requests} GET requests, {diagnosis.seconds * 1000:.0f} ms each (median)"
        out.print(f"{sent}. Nothing was written.", soft_wrap=True)
    style = "bold" if diagnosis.works else "bold red"
    out.print(_conclusion(diagnosis), style=style, soft_wrap=True)
    _advise(context, diagnosis)


def _lines(check: Check, width: int) -> Iterator[Text]:
    from rich.text import Text

    from petsync.render.visible import visible, wrap

    mark, style = _STYLE[check.verdict]
    first, *rest = wrap(visible(check.found), width - _INDENT)
    yield Text.assemble("  ", (mark, style), f"  {check.topic:22}{first}")
    for line in rest:
        yield Text(" " * _INDENT + line)


def _conclusion(diagnosis: Diagnosis) -> str:
    if not diagnosis.works:
        return "petsync cannot work with this service as it is set up."
    if diagnosis.overrides:
        return "petsync can work with this service; it differs from the profile in details."
    return "petsync can work with this service, and it is as the profile says."


def _advise(context: Context, diagnosis: Diagnosis) -> None:
    if diagnosis.suggested_profile is not None:
        context.out.print(f"It is like this profile: --profile {diagnosis.suggested_profile}")
    elif diagnosis.overrides:
        context.out.print("In petsync.toml:\n\n[service]\n" + _toml(diagnosis.overrides))


def _toml(values: Mapping[str, Any]) -> str:
    # JSON's spelling of text and of true and false is TOML's too.
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
