"""Past runs in a terminal, and a terminal as an image."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

from rich.console import Console

from petsync.plan.report import Entry, PastRun
from petsync.plan.uploads import UploadedFile
from petsync.report.text import print_lines, usable_width
from petsync.report.views.run import pet_lines, run_details_lines, runs_lines

__all__ = [
    "show_pet",
    "show_run_details",
    "show_runs",
    "terminal_svg",
]


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
