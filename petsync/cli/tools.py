"""`petsync app`, `completion`, `demo`, `doctor` and `serve`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.shell_completion import get_completion_class

import petsync as ps
from petsync._display import count, quote
from petsync._extras import EXTRAS, has_extra, needs_extra
from petsync._files import make_folder, make_state_folder
from petsync.cli import COMPLETION_VARIABLE
from petsync.cli.context import Context, find_free_path
from petsync.cli.context import command as as_command
from petsync.cli.options import file_option, save_report, save_results
from petsync.cli.plan import save
from petsync.cli.run import apply_plan
from petsync.cli.signals import exiting_on_signal
from petsync.errors import PetsyncError, SettingsError
from petsync.profile import profile_from

if TYPE_CHECKING:
    from rich.text import Text

    from petsync.client.probe import Check, Diagnosis
    from petsync.models import Pet
    from petsync.plan.plan import Plan
    from petsync.plan.report import Report
    from petsync.sandbox.app import ServedInfo
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["app_command", "completion_command", "demo_command", "doctor_command", "serve_command"]


# `petsync app`: the forms as a web page.


_APP_EXAMPLES = """
petsync app
petsync app --url https://shop.example/v2
petsync app --no-browser --port 8866
"""


@as_command("app", examples=_APP_EXAMPLES)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.  [a free one]",
)
@click.option("--no-browser", is_flag=True, help="Print the link, and do not open a browser.")
@click.option(
    "--theme",
    type=click.Choice(["light", "dark"]),
    default="light",
    help="The colours of the page.  [light]",
)
@click.pass_obj
@needs_extra("app", "`petsync app`")
def app_command(context: Context, port: int, no_browser: bool, theme: str) -> int:
    """Do everything in the browser: sign in, open a sheet, review, apply, see the report.

    Listens on this machine only, and serves only browsers that have opened the link, which contains
    a new token at each start. Uses the files of the current folder, and runs until Ctrl-C. Needs
    the extra `app`.
    """
    context.settings  # noqa: B018 - report errors here, not on the page
    # Voilà loads jsonschema, which builds a grammar for IRIs if this module is available. That
    # takes most of a second, and no schema of Voilà needs the grammar.
    cast("dict[str, object]", sys.modules).setdefault("rfc3987_syntax", None)
    with exiting_on_signal():
        from petsync.widgets.app_config import AppConfig
        from petsync.widgets.webapp import open_browser, serve
    token = context.take_token()
    given = AppConfig(str(Path.cwd()), _options(context))
    files: list[Path] = []

    def ready(link: str) -> None:
        file = None if no_browser else open_browser(link)
        files.extend([] if file is None else [file])
        _show_link(context, link)

    try:
        text = None if token is None else token.reveal()
        again = context.command_line("app", repeat=None)
        serve(port, given, token=text, theme=theme, again=again, on_ready=ready)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    context.say("The page has ended.")
    return 0


def _options(context: Context) -> dict[str, object]:
    return {
        "url": context.url,
        "profile": context.profile,
        "state": context.state,
        "allow_http": list(context.allow_http) or None,
    }


def _show_link(context: Context, link: str) -> None:
    context.say("The page is at", "bold green")
    context.say(f"  {link}", fold=False)
    context.say("Keep the link secret: anyone who has it can act as you. Ctrl-C ends the page.")
    if context.as_json:
        context.show_json({"url": link})


# `petsync completion`: the script that completes petsync's commands in a shell.


_COMPLETION_EXAMPLES = """
petsync completion bash > ~/.local/share/bash-completion/completions/petsync
petsync completion zsh > ~/.zfunc/_petsync
petsync completion fish > ~/.config/fish/completions/petsync.fish
"""


@as_command("completion", examples=_COMPLETION_EXAMPLES)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def completion_command(context: Context, shell: str) -> int:
    """Print the script that completes petsync's commands in a shell.

    Save it where the shell finds it, as below, and open a new shell. For the current bash only:
    eval "$(petsync completion bash)". zsh looks in the folders of fpath, which ~/.zshrc sets before
    it calls compinit. bash must be 4.4 or newer, with the package bash-completion.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(_root(), {}, "petsync", COMPLETION_VARIABLE).source().strip()
    if context.as_json:
        context.show_json({"shell": shell, "script": script})
    else:
        context.show(script.encode())
    return 0


def _root() -> click.Command:
    return click.get_current_context().find_root().command


# `petsync demo`: the whole workflow, on an embedded store.


_FOLDER = Path("petsync-demo")
_SHOWN_RULES = 6
_DEMO_EXAMPLES = """
petsync demo
petsync demo --keep /tmp/first-look
petsync demo --profile live
"""


@as_command("demo", examples=_DEMO_EXAMPLES)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The new folder for the files of the demo.  [petsync-demo]",
)
@click.pass_obj
@needs_extra("sandbox", "`petsync demo`")
def demo_command(context: Context, keep: Path | None) -> int:
    """Show how petsync brings a spreadsheet and a pet store into agreement.

    Starts a pet store on this machine with a sample catalogue, checks an edited workbook with
    mistakes, plans, applies, and plans again. It needs no service and no settings, takes a few
    seconds, and writes its files into a new folder. Needs the extra `sandbox`.
    """
    if context.url is not None:
        raise click.UsageError("The demo uses the store that it starts: leave out --url.")
    folder = _make_demo_folder(keep)
    with ps.demo(state=folder / ".petsync", profile=context.profile or "standard") as store:
        shown = _Demo(context, store, folder).run()
    if context.as_json:
        context.show_json(shown)
    return int(shown["exit_code"])


@dataclass(slots=True)
class _Demo:
    context: Context
    store: Store
    folder: Path
    step: int = 0

    def run(self) -> dict[str, Any]:
        """Run the five steps, and return their results."""
        self._say(f"A pet store was started on this machine: {self.store.url}")
        self._note("It contains a shop's catalogue, and ends with the demo.")
        sheet = self._check()
        plan = self._plan(sheet)
        report = self._apply(plan, sheet)
        again = self._plan_again()
        self._end(again)
        return {
            "folder": str(self.folder),
            "files": sorted(path.name for path in self.folder.iterdir() if path.is_file()),
            "findings": len(sheet.problems),
            "planned": _counts(plan),
            "applied": report.counts,
            "planned_again": _counts(again),
            "exit_code": 1 if again.changes else 0,
        }

    def _check(self) -> Sheet:
        from petsync.report.views.sheet import sheet_summary

        self._say("Checking the workbook that the shop has edited")
        path = self.folder / "catalogue.xlsx"
        shutil.copyfile(ps.sample_data() / "catalogue_edited.xlsx", path)
        sheet = self.store.read(path)
        for line in _describe_findings(sheet):
            self.context.text_console.print(line, no_wrap=True, overflow="ellipsis")
        quoted = quote(path)
        self._note(f"{sheet_summary(sheet)} `petsync check {quoted}` lists each one.")
        return sheet

    def _plan(self, sheet: Sheet) -> Plan:
        from petsync.report.text import show
        from petsync.report.views.plan import plan_view

        self._say("Planning: what would bring the store into agreement with the workbook")
        plan = self.store.plan(sheet)
        show(plan_view(plan, limit=3), self.context.text_console)
        for name in ("plan.json", "plan.html"):
            save(plan, self.folder / name)
        return plan

    def _apply(self, plan: Plan, sheet: Sheet) -> Report:
        from petsync.report.text import show
        from petsync.report.views.run import report_view

        self._say(f"Applying the plan: {count(len(plan.changes), 'change')}")
        report, stopped = apply_plan(self.context, self.store, plan)
        if stopped is not None:
            raise stopped
        show(report_view(report, limit=2), self.context.text_console)
        self._note("Such commands are for another store: this one ends with the demo.")
        save_results(report, sheet, self.folder / "catalogue.results.xlsx", is_named=False)
        save_report(report, self.folder / "report.html")
        return report

    def _plan_again(self) -> Plan:
        self._say("Planning again, from the results file with the new pets' ids")
        return self.store.plan(self.folder / "catalogue.results.xlsx")

    def _end(self, again: Plan) -> None:
        if again.changes:
            self.context.say(
                f"Still to be sent: {count(len(again.changes), 'change')}.", "bold red"
            )
        else:
            self.context.say(f"   In sync: {_describe_agreement(again)}", "bold green")
        for line in _describe_open_rows(again):
            self._note(line)
        self.context.say(_describe_files(self.folder))

    def _say(self, text: str) -> None:
        self.step += 1
        self.context.say(f"\n{self.step}. {text}", "bold")

    def _note(self, text: str) -> None:
        self.context.say(f"   {text}")


def _make_demo_folder(keep: Path | None) -> Path:
    """Create the folder, and return it. The demo never writes into a folder that is not empty."""
    folder = keep or find_free_path(_FOLDER)
    try:
        make_folder(folder)
        is_used = any(folder.iterdir())
    except OSError as error:
        raise PetsyncError(
            f"the folder {folder} cannot be created: {error.strerror}",
            hint="Name another one with --keep, or change to a folder that you can write to.",
        ) from None
    if is_used:
        raise SettingsError(f"--keep {folder}: the folder is not empty", hint="Name a new folder.")
    return folder


def _counts(plan: Plan) -> dict[str, int]:
    named = {
        "adds": plan.adds,
        "updates": plan.updates,
        "deletes": plan.deletes,
        "conflicts": plan.conflicts,
        "blocked": plan.blocked,
    }
    return {name: len(rows) for name, rows in named.items()}


def _describe_findings(sheet: Sheet) -> Iterator[str]:
    from petsync.report.words import findings_by_rule

    groups = findings_by_rule(sheet, 1)
    for group in groups[:_SHOWN_RULES]:
        finding = group.shown[0]
        yield f"   {group.total} {finding.rule}, {finding.address}: {finding.problem}"
    yield f"   ... and {len(groups) - _SHOWN_RULES} other kinds"


def _describe_agreement(again: Plan) -> str:
    return f"nothing is left to send, and {again.unchanged:,} rows agree with the store."


def _describe_open_rows(again: Plan) -> list[str]:
    lines = []
    if again.blocked:
        lines.append(f"{count(len(again.blocked), 'row')} with mistakes must be fixed.")
    if again.conflicts:
        rows = count(len(again.conflicts), "row")
        lines.append(f"{rows} in conflict with the store: you must decide.")
    return [*lines, "report.html lists them with their cells."] if lines else []


def _describe_files(folder: Path) -> str:
    return f"""
The files are in {folder}:
  catalogue.xlsx            the edited workbook
  catalogue.results.xlsx    the outcome of each row, with the new ids
  report.html, plan.html    to open in a browser
  plan.json                 the plan, as `petsync apply` reads it

Next: start a pet store to try things out. In another window, export its
catalogue, edit my.xlsx in Excel, and see what would change.
  petsync serve --no-auth
  petsync export my.xlsx --url http://127.0.0.1:8080/v2
  petsync plan my.xlsx
  petsync --help"""


# `petsync doctor`: what a service supports, with GET requests only.


_STYLE = {
    "fits": ("ok", "green"),
    "noted": ("--", ""),
    "differs": ("!=", "yellow"),
    "fails": ("XX", "bold red"),
    "unknown": ("??", "dim"),
}
_INDENT = 28
_DOCTOR_EXAMPLES = """
petsync doctor --url https://shop.example/v2
petsync doctor --url http://127.0.0.1:8080/v2 --profile live --json
"""


@as_command("doctor", examples=_DOCTOR_EXAMPLES)
@click.pass_obj
def doctor_command(context: Context) -> int:
    """Show what the service supports, without writing anything.

    Sends GET requests only. Tests the connection, the token, and the choices that the API
    definition leaves open, if GET requests can show them. Compares the results with --profile, and
    prints lines for petsync.toml where they differ. Also lists the extras of petsync that are
    installed.

    Exit codes: 0 if petsync can work with the service as configured, else 1.
    """
    import asyncio

    store = context.connect()
    with context.busy("Asking the service"):
        diagnosis = asyncio.run(_examine(store))
    if context.as_json:
        context.show_json(_document(diagnosis))
    else:
        _print(context, diagnosis)
    if diagnosis.works:
        context.suggest("export", "catalogue.xlsx", url=True)
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
        "extras": {extra: has_extra(extra) for extra in EXTRAS},
        "overrides": diagnosis.overrides,
        "suggested_profile": diagnosis.suggested_profile,
    }


def _print(context: Context, diagnosis: Diagnosis) -> None:
    out = context.out
    out.print(f"{diagnosis.url}, profile {diagnosis.profile.name}", style="bold", soft_wrap=True)
    for check in (*diagnosis.checks, _check_extras()):
        for line in _lines(check, min(max(out.width, 60), 100)):
            out.print(line, soft_wrap=True)
    if diagnosis.seconds:
        sent = f"{count(diagnosis.requests, 'GET request')}, {diagnosis.seconds * 1000:.0f} ms each"
        out.print(f"{sent} (median). Nothing was written.", soft_wrap=True)
    style = "bold" if diagnosis.works else "bold red"
    out.print(_describe_result(diagnosis), style=style, soft_wrap=True)
    _show_suggestion(context, diagnosis)


def _check_extras() -> Check:
    """Return the extras that are installed on this machine."""
    from petsync.client.probe import Check

    missing = [extra for extra in EXTRAS if not has_extra(extra)]
    installed = ", ".join(extra for extra in EXTRAS if extra not in missing) or "none"
    found = f"installed: {installed}"
    if missing:
        found += f"; not installed: {', '.join(missing)} (pip install 'petsync[EXTRA]')"
    return Check("extras", "noted", found)


def _lines(check: Check, width: int) -> Iterator[Text]:
    from rich.text import Text

    from petsync.report.words import wrap
    from petsync.table.cells import make_visible

    mark, style = _STYLE[check.verdict]
    first, *rest = wrap(make_visible(check.found), width - _INDENT)
    yield Text.assemble("  ", (mark, style), f"  {check.topic:22}{first}")
    for line in rest:
        yield Text(" " * _INDENT + line)


def _describe_result(diagnosis: Diagnosis) -> str:
    if not diagnosis.works:
        return "petsync cannot work with this service in the current configuration."
    if diagnosis.overrides:
        return "petsync can work with this service; it differs from the profile in details."
    return "petsync can work with this service, which behaves as the profile describes."


def _show_suggestion(context: Context, diagnosis: Diagnosis) -> None:
    if diagnosis.suggested_profile is not None:
        context.out.print(f"This profile fits: --profile {diagnosis.suggested_profile}")
    elif diagnosis.overrides:
        context.out.print("In petsync.toml:\n\n[service]\n" + _toml(diagnosis.overrides))


def _toml(values: Mapping[str, Any]) -> str:
    # TOML writes text, true and false as JSON does.
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


# `petsync serve`: the embedded pet store as a program.


_SERVE_EXAMPLES = """
petsync serve
petsync serve --no-auth --port 8123 --db store.db --seed pets.json
petsync serve --profile live --faults 429=0.02,drop_after=0.01,seed=7
petsync serve --no-auth --faults limit=200,latency=0.05
"""


@as_command("serve", examples=_SERVE_EXAMPLES)
@click.option("--host", default="127.0.0.1", help="The address to listen on.  [127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    metavar="N",
    help="The port to listen on; 0 for a free one.  [8080]",
)
@file_option(
    "--db",
    help="The database file.  [store.db in --state]",
)
@click.option("--auth/--no-auth", default=True, help="Whether requests need a token.  [--auth]")
@file_option(
    "--seed",
    help="A JSON list of pets for a new store.  [the sample catalogue]",
)
@click.option(
    "--faults", metavar="SPEC", help="Make requests fail, or limit their rate: see docs/sandbox.md."
)
@click.pass_obj
@needs_extra("sandbox", "`petsync serve`")
def serve_command(
    context: Context,
    host: str,
    port: int,
    db: Path | None,
    auth: bool,
    seed: Path | None,
    faults: str | None,
) -> int:
    """Run a pet store on this machine, to try things out.

    It serves all eight operations in JSON and XML under /v2 until Ctrl-C, and behaves as --profile
    specifies. Its data survive kill -9, and are there at the next start. Without --seed, a new
    store contains the sample catalogue; with the profile live, which keeps 1,000 pets, only the
    first 500 pets of it. Each start creates a new client secret and API key and, unless --no-auth
    is given, prints them. Needs the extra `sandbox`.
    """
    from petsync.sandbox.app import serve

    settings = context.settings
    file = db or _database_path(settings.state)
    serve(
        host=host,
        port=port,
        db=file,
        profile=settings.profile,
        auth=auth,
        seed=seed,
        pets=() if seed or file.exists() else _read_sample(settings.profile),
        faults=faults,
        on_ready=lambda info: _show_service(context, info),
    )
    return 0


def _read_sample(profile: str) -> list[Pet]:
    """Return the sample catalogue; if the capacity is limited, only as many pets as fill half of
    it, which leaves room for more.
    """
    from petsync.protocol import json
    from petsync.samples import sample_data

    pets = json.decode_pets((sample_data() / "store.json").read_bytes())
    capacity = profile_from(profile).capacity
    return pets if capacity is None else pets[: capacity // 2]


def _database_path(state: Path) -> Path:
    try:
        make_state_folder(state)
    except OSError as error:
        raise SettingsError(
            f"the folder {state} cannot be created: {error.strerror}",
            hint="Name another one with --state, or the store's file with --db.",
        ) from None
    return state / "store.db"


def _show_service(context: Context, info: ServedInfo) -> None:
    for warning in info.warnings:
        context.say(f"warning: {warning}", "bold yellow")
    context.say(f"A pet store with {count(info.pets, 'pet')} answers at {info.url}", "bold green")
    context.say(f"  profile {info.profile}, data in {info.db}")
    context.say(f"  {info.openapi_url} describes it")
    if info.auth:
        _show_secrets(context, info)
    else:
        context.say("  it needs no token")
    context.say("Ctrl-C ends it.")
    if context.as_json:
        names = ("url", "openapi_url", "profile", "auth", "pets")
        secrets = ("client_id", "client_secret", "api_key") if info.auth else ()
        data = {name: getattr(info, name) for name in (*names, *secrets)}
        context.show_json({**data, "db": str(info.db)})


def _show_secrets(context: Context, info: ServedInfo) -> None:
    origin = info.url.removesuffix("/v2")
    context.say(f"  client id {info.client_id}, secret {info.client_secret}")
    context.say(f"  api key {info.api_key}")
    context.say("Sign in with your browser:")
    options = " --profile live --implicit" if info.profile == "live" else ""
    context.say(f"  petsync login --url {info.url}{options}", fold=False)
    context.say(
        "Or get a token for an hour, and put the access_token of the response into PETSYNC_TOKEN:"
    )
    context.say(
        f"  curl -s -u {info.client_id}:{info.client_secret} "
        f"-d grant_type=client_credentials {origin}/oauth/token",
        fold=False,
    )
