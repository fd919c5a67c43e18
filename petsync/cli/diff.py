"""`petsync diff`: the differences between two sheets, exports, folders, plans, or the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import petsync as ps
from petsync._files import write_atomically
from petsync.cli.context import Context, SheetPath, must_be_writable, must_differ
from petsync.cli.context import command as as_command
from petsync.cli.options import (
    begins_with,
    file_option,
    limit_option,
    must_not_replace_work,
    must_still_wait,
    sheet_options,
)
from petsync.cli.plan import FORMATS, choose_format
from petsync.errors import SheetError
from petsync.plan.options import MATCHABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from petsync.differences import Comparable
    from petsync.plan.differences import Differences

__all__ = ["command"]


_STORE = "store:"
_JSON_HEAD = rb'\s*\{\s*"format"\s*:\s*[0-9]+,\s*"a"\s*:'
"""The beginning of the differences in JSON."""
_BY_SUFFIX = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".xlsx": "xlsx",
    ".md": "md",
    ".txt": "text",
}
_EXAMPLES = """
petsync diff old.xlsx new.csv
petsync diff catalogue.xlsx store: -o differences.html
petsync diff mine.xlsx hers.xlsx --base export.xlsx
petsync diff plan-monday.json plan-tuesday.json --format json
"""


class _SidePath(SheetPath):
    """A path, or the word `store:`."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return `store:` as text, and anything else as SheetPath does."""
        return _STORE if value == _STORE else super().convert(value, param, ctx)


@as_command("diff", examples=_EXAMPLES)
@click.argument("a", type=_SidePath())
@click.argument("b", type=_SidePath())
@click.option(
    "--base",
    type=_SidePath(),
    help="Compare both with BASE: list what A changed, what B changed, and their conflicts.",
)
@click.option(
    "--match-on",
    type=click.Choice(MATCHABLE),
    multiple=True,
    metavar="COLUMN",
    help="Pair a row without an id by this column, such as name; repeatable.  [all values, else a "
    "unique name]",
)
@file_option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    help="Save the differences: as .html, .xlsx, .json, .md or .txt; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to print: text, json, html, or md for a pull request; xlsx needs -o.  [text]",
)
@limit_option(help="How many rows of each kind to print; 0 for all.  [20; md: 100]")
@sheet_options
@click.pass_obj
def command(
    context: Context,
    a: Path | str,
    b: Path | str,
    base: Path | str | None,
    match_on: tuple[Any, ...],
    outputs: tuple[Path, ...],
    form: str | None,
    limit: int | None,
    reading: dict[str, Any],
) -> int:
    """Show the differences between A and B.

    A and B are sheets, exports (.json, .jsonl and .parquet too), folders or patterns of them, saved
    plans, or `store:` for the connected store. Parquet, CSV and JSON Lines files may be at an
    address such as s3://bucket/pets. Nothing changes, and without `store:` no request is sent to
    it. Rows are paired by their ids; a row without an id by its values, else by a unique name. A
    blank cell differs from a filled one. Columns that petsync does not use are compared as texts.
    A plan is compared by what it would write.

    Exit codes: 0 if there are no differences, 2 if there are, 3 if there are none but errors keep
    rows from being compared, 1 if a file cannot be read.
    """
    form = _choose_format(context, form, outputs, [a, b, *([] if base is None else [base])])
    for side in (a, b, base):
        must_still_wait(context, side)
    known: dict[Path | str | None, Comparable] = {}
    if _STORE in (a, b, base):
        with context.connect() as store, context.busy("Reading the store"):
            known[_STORE] = store.snapshot()
    common = base and known.get(base, base)
    found = ps.diff(known.get(a, a), known.get(b, b), common, match_on=match_on, **reading)
    for path in outputs:
        _save(found, path, limit)
    kinds = [_BY_SUFFIX[path.suffix.lower()] for path in outputs]
    if context.as_json or form not in kinds or form in ("text", "json"):
        _print(context, found, form, limit)
    for path in outputs:
        context.say(f"Saved {path}.")
    return found.exit_code


def _choose_format(
    context: Context, form: str | None, outputs: Sequence[Path], sides: Sequence[Path | str]
) -> str:
    """Return the format to print. Raises UsageError if an output cannot be written."""
    chosen = choose_format(context, form, outputs)
    for path in outputs:
        if path.suffix.lower() not in _BY_SUFFIX:
            raise click.UsageError(
                f"{path}: the file extension must be one of {', '.join(_BY_SUFFIX)}."
            )
        for side in sides:
            must_differ(path, side)
        must_be_writable(path)
        must_not_replace_work(path, _BY_SUFFIX[path.suffix.lower()])
        if path.suffix.lower() == ".json" and not begins_with(path, _JSON_HEAD):
            raise click.UsageError(f"{path} is not a list of differences: it would be overwritten.")
    return chosen


def _save(found: Differences, path: Path, limit: int | None) -> None:
    kind = _BY_SUFFIX[path.suffix.lower()]
    if kind == "xlsx":
        from petsync.report.workbook import diff_workbook

        diff_workbook(found, path)
        return
    if kind == "text":
        from petsync.report.text import plain_text
        from petsync.report.views.diff import diff_view

        body = plain_text(diff_view(found, limit=limit or None)).encode() + b"\n"
    else:
        body = {"html": _html, "json": _json}.get(kind, lambda each: _markdown(each, limit))(found)
    write_atomically(path, body, error=SheetError)


def _print(context: Context, found: Differences, form: str, limit: int | None) -> None:
    if form in ("html", "json"):
        context.show(_html(found) if form == "html" else _json(found))
    elif form == "md":
        context.show(_markdown(found, limit))
    else:
        from petsync.report.views.diff import diff_view

        context.show_view(diff_view(found, limit=20 if limit is None else limit or None))


def _html(found: Differences) -> bytes:
    from petsync.report.html import document_page
    from petsync.report.views.diff import diff_page_view, diff_title

    return document_page(diff_page_view(found), diff_title(found)).encode()


def _json(found: Differences) -> bytes:
    from petsync.report.json import diff_json

    return diff_json(found)


def _markdown(found: Differences, limit: int | None) -> bytes:
    from petsync.report.markdown import document_markdown
    from petsync.report.views.diff import diff_view

    view = diff_view(found, limit=100 if limit is None else limit or None)
    return document_markdown(view).encode()
