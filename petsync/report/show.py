"""Display of objects: in a notebook, in a terminal, and as plain text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

from rich.console import Console

from petsync.plan.plan import Inbound, Plan
from petsync.plan.report import Entry, PastRun
from petsync.plan.uploads import UploadedFile
from petsync.report.plan import intake_lines, plan_html, plan_lines, plan_page
from petsync.report.text import join_lines, print_lines, usable_width
from petsync.report.views.run import pet_lines, run_details_lines, runs_lines

__all__ = [
    "plan_html",
    "plan_page",
    "plan_text",
    "show_intake",
    "show_pet",
    "show_plan",
    "show_run_details",
    "show_runs",
    "terminal_svg",
]


# Values in a terminal: the lines of the plain text, in colour if the console has colours.


def show_plan(plan: Plan, console: Console, *, limit: int | None = 20) -> None:
    """Print the plan with the first `limit` rows of each kind."""
    print_lines(plan_lines(plan, limit=limit, width=usable_width(console)), console)


def show_intake(inbound: Inbound, console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` changes from the store for the sheet."""
    print_lines(intake_lines(inbound, width=usable_width(console), limit=limit), console)


def show_runs(runs: Sequence[PastRun], console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` runs, and their outcomes."""
    print_lines(runs_lines(runs, limit=limit, width=usable_width(console)), console)


def show_pet(pet_id: int, entries: Sequence[tuple[PastRun, Entry]], console: Console) -> None:
    """Print the changes that runs made to a pet, with the values before and after."""
    print_lines(pet_lines(pet_id, entries, width=usable_width(console)), console)


def show_run_details(
    run: PastRun,
    entries: Sequence[Entry],
    console: Console,
    *,
    limit: int | None = 20,
    files: Sequence[UploadedFile] = (),
) -> None:
    """Print a run, and the outcomes of the first `limit` of its changes or files."""
    width = usable_width(console)
    print_lines(run_details_lines(run, entries, limit=limit, width=width, files=files), console)


def terminal_svg(show: Callable[[Console], None], *, title: str, width: int = 80) -> str:
    """Return an SVG image, without any URL in it, of the text that `show` prints on its console."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, color_system="truecolor"
    )
    show(console)
    plain = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=title, code_format=plain)


# Values as plain text: stable, without colour, by default at most 80 columns wide.


def plan_text(plan: Plan, *, limit: int | None = 20, width: int = 80) -> str:
    """Return the plan as text, with the first `limit` rows of each kind; all rows if `limit` is
    None.
    """
    return join_lines(plan_lines(plan, limit=limit, width=width))
