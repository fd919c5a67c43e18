"""`petsync demo`: the main job, from beginning to end, on a store of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import petsync as ps
from petsync._file import make_folder
from petsync.cli.apply import carry_out
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import free
from petsync.cli.outcome import save_report, save_results
from petsync.cli.plan import save
from petsync.errors import PetsyncError, SettingsError

if TYPE_CHECKING:
    from petsync.diff.plan import Plan
    from petsync.diff.report import Report
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["command"]

_FOLDER = Path("petsync-demo")
_SHOWN_RULES = 6
_EXAMPLES = """
petsync demo
petsync demo --keep /tmp/first-look
petsync demo --profile live
"""


@as_command("demo", examples=_EXAMPLES)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The new folder for what the demo leaves behind.  [petsync-demo]",
)
@click.pass_obj
def command(context: Context, keep: Path | None) -> int:
    """Watch a spreadsheet and a pet store come into agreement.

    Starts a pet store on this machine with a sample catalogue, checks a workbook that people
    have edited (mistakes and all), plans, applies, and plans again. Needs no service and no
    settings, takes a few seconds, and leaves its files in a new folder.
    """
    if context.url is not None:
        raise click.UsageError("The demo has a store of its own: leave --url out.")
    folder = _made(keep)
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
        """The five steps; what they came to."""
        self._say(f"A pet store was started on this machine: {self.store.url}")
        self._note("It holds a shop's catalogue, and ends with the demo.")
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
        from petsync.render.sheet_words import sheet_summary

        self._say("Checking the workbook that the shop's people have edited")
        path = self.folder / "catalogue.xlsx"
        shutil.copyfile(ps.sample_data() / "catalogue_edited.xlsx", path)
        sheet = self.store.read(path)
        for line in _most_frequent(sheet):
            self.context.talk.print(line, no_wrap=True, overflow="ellipsis")
        self._note(f"{sheet_summary(sheet)} `petsync check {path}` tells of each.")
        return sheet

    def _plan(self, sheet: Sheet) -> Plan:
        from petsync.render.terminal import show_plan

        self._say("Planning: what would bring the store to what the workbook says")
        plan = self.store.plan(sheet)
        show_plan(plan, self.context.talk, limit=3)
        for name in ("plan.json", "plan.html"):
            save(plan, self.folder / name)
        return plan

    def _apply(self, plan: Plan, sheet: Sheet) -> Report:
        from petsync.render.terminal import show_report

        self._say(f"Applying the plan: {len(plan.changes)} changes")
        report, stopped = carry_out(self.context, self.store, plan)
        if stopped is not None:
            raise stopped
        show_report(report, self.context.talk, limit=2)
        save_results(report, sheet, self.folder / "catalogue.results.xlsx", is_named=False)
        save_report(report, self.folder / "report.html")
        return report

    def _plan_again(self) -> Plan:
        self._say("Planning again, from the result workbook with the new pets' ids")
        return self.store.plan(self.folder / "catalogue.results.xlsx")

    def _end(self, again: Plan) -> None:
        if again.changes:
            self.context.say(f"{len(again.changes)} changes are still to be sent.", "bold red")
        else:
            self.context.say(f"   In sync: {_agreement(again)}", "bold green")
        for line in _left_to_people(again):
            self._note(line)
        self.context.say(_farewell(self.folder))

    def _say(self, text: str) -> None:
        self.step += 1
        self.context.say(f"\n{self.step}. {text}", "bold")

    def _note(self, text: str) -> None:
        self.context.say(f"   {text}")


def _made(keep: Path | None) -> Path:
    """The new folder; the demo never writes into one that has something in it."""
    folder = keep or free(_FOLDER)
    try:
        make_folder(folder)
        is_used = any(folder.iterdir())
    except OSError as error:
        raise PetsyncError(
            f"the folder {folder} cannot be made: {error.strerror}",
            hint="Name another one with --keep, or go where you may write.",
        ) from None
    if is_used:
        raise SettingsError(
            f"--keep {folder}: there is something in it already", hint="Name a new folder."
        )
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


def _most_frequent(sheet: Sheet) -> Iterator[str]:
    from petsync.render.digest import findings_by_rule

    groups = findings_by_rule(sheet, 1)
    for group in groups[:_SHOWN_RULES]:
        finding = group.shown[0]
        yield f"   {group.total} {finding.rule}, {finding.address}: {finding.problem}"
    yield f"   ... and {len(groups) - _SHOWN_RULES} other kinds"


def _agreement(again: Plan) -> str:
    return f"there is nothing left to send, {again.unchanged:,} rows agree with the store."


def _left_to_people(again: Plan) -> list[str]:
    from petsync.render.words import count

    said = []
    if again.blocked:
        said.append(f"{count(len(again.blocked), 'row')} with mistakes wait to be mended.")
    if again.conflicts:
        rows = count(len(again.conflicts), "row")
        said.append(f"{rows} in conflict with the store: a person has to decide.")
    return [*said, "report.html lists them with their cells."] if said else []


def _farewell(folder: Path) -> str:
    return f"""
All of it is in {folder}:
  catalogue.xlsx            the workbook, as it was edited
  catalogue.results.xlsx    what became of each row, with the new ids
  report.html, plan.html    to open in a browser
  plan.json                 the plan, as `petsync apply` reads it

Next: start such a store to play with; in another window export its catalogue,
edit my.xlsx in Excel, and see what would change.
  petsync serve --no-auth
  petsync export my.xlsx --url http://127.0.0.1:8080/v2
  petsync plan my.xlsx --url http://127.0.0.1:8080/v2
  petsync --help"""
