"""`petsync check`, `export`, `plan` and `rehearse`: commands that change nothing in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from importlib import import_module
from os.path import lexists
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

import petsync as ps
from petsync._display import quote
from petsync._extras import needs_extra
from petsync._files import has_wildcards, is_in_parts, write_atomically
from petsync.cli import context as progress
from petsync.cli.context import (
    Context,
    SheetPath,
    find_free_path,
    must_be_writable,
    must_differ,
    warn_of_coverage,
)
from petsync.cli.context import command as as_command
from petsync.cli.options import (
    COMPARING,
    READING,
    SOME_FAILED,
    CompareOptions,
    PetName,
    Selection,
    as_usage_error,
    check_page,
    dask_option,
    explain_sheet,
    file_option,
    find_job_of_file,
    find_url_of,
    is_saved_plan,
    limit_option,
    memory_option,
    must_not_replace_work,
    must_still_wait,
    plan_from_sheet,
    plan_options,
    read_inputs,
    save_page,
    select_options,
    sheet_options,
    verdict_code,
)
from petsync.cli.signals import exiting_on_signal
from petsync.errors import AuthError, GuardError, InterruptedRunError, PetsyncError, SheetError
from petsync.profile import profile_from

if TYPE_CHECKING:
    from petsync.plan.plan import Plan
    from petsync.plan.rehearsal import Rehearsal
    from petsync.store import Store
    from petsync.table.base import Base
    from petsync.table.sheet import Sheet

__all__ = [
    "FORMATS",
    "check_command",
    "check_output",
    "choose_format",
    "export_command",
    "find_saved_plan",
    "plan_command",
    "print_plan",
    "rehearse_command",
    "save",
]


# `petsync check`: the mistakes in a sheet, without a store.


_CHECK_EXAMPLES = """
petsync check catalogue.xlsx
petsync check catalogue.xlsx --annotate marked.xlsx
petsync check catalogue.xlsx --sheet Pets --column Tiername=name --strict
petsync check arrivals.csv --json
petsync check arrivals.csv --rules
petsync check 'pets/*.csv'
"""


@as_command("check", examples=_CHECK_EXAMPLES)
@click.argument("sheet", type=SheetPath())
@sheet_options
@file_option(
    "--annotate",
    "marked",
    help="Write a copy of the sheet (.xlsx) in which each cell with a finding is marked; if FILE "
    "exists, the copy gets another name in the same folder.",
)
@click.option("--strict", is_flag=True, help="Also end with exit code 3 for warnings.")
@click.option(
    "--rules",
    "with_rules",
    is_flag=True,
    help="Also list your own rules (petsync.toml): which of them ran, how many rows each "
    "looked at, and how many break it.",
)
@limit_option(default=5, help="How many findings of each kind to print; 0 for all.  [5]")
@click.option(
    "--format", "form", type=click.Choice(("text", "json")), help="What to print.  [text]"
)
@click.pass_obj
def check_command(
    context: Context,
    sheet: Path | str,
    reading: dict[str, Any],
    marked: Path | None,
    strict: bool,
    with_rules: bool,
    limit: int,
    form: str | None,
) -> int:
    """List the mistakes in SHEET.

    The mistakes are grouped by kind, each with its cell and a suggestion. Your own rules in
    petsync.toml (`[[rules]]`) are checked too. SHEET may be a folder or a pattern of Parquet, CSV
    or JSON Lines files. The check needs no store, and does not change SHEET. `petsync plan` also
    finds mistakes that only a comparison with the store shows, such as an id that no pet has.

    Exit codes: 0 if every row can be used, 3 if errors block rows or the sheet, 1 if the file
    cannot be read. With --strict, 3 for warnings too.
    """
    if isinstance(sheet, str):
        raise click.UsageError(
            f"{sheet} is an address, which only `plan`, `apply` and `rehearse` read. Name a file "
            "or a folder on this machine."
        )
    in_parts = is_in_parts(sheet)
    if in_parts and not sheet.exists() and not has_wildcards(sheet):
        raise click.UsageError(f"{sheet}: there is no such file.")
    if marked is not None and in_parts:
        raise click.UsageError(
            f"--annotate marks the cells of one file, and {sheet} is checked in parts."
        )
    if marked is not None:
        must_differ(marked, sheet)
        must_be_writable(marked)
    settings = context.settings
    options = {
        "defaults": settings.columns,
        "statuses": profile_from(settings.profile, settings.service).statuses,
        "rules": settings.rules,
        **reading,
    }
    with as_usage_error(reading):
        read = _check_in_parts(sheet, options) if in_parts else ps.read_sheet(sheet, **options)
    from petsync.report.views.sheet import refusal_of, sheet_view

    is_refused = refusal_of(read) is not None
    if context.as_json or form == "json":
        from petsync.report.json import findings_json

        context.show(findings_json(read))
    else:
        context.show_view(sheet_view(read, limit=limit or None, with_rules=with_rules))
    if marked is not None:
        # An earlier copy may have been edited by hand.
        _annotate(context, read, find_free_path(marked))
    if form != "json":
        _suggest_after_check(
            context, read, sheet, is_marked=marked is not None, is_refused=is_refused
        )
    return SOME_FAILED if read.errors or is_refused or (strict and read.problems) else 0


def _check_in_parts(path: Path, options: dict[str, Any]) -> Sheet:
    # Most sheets are in one file.
    from petsync.scale.check import check_files
    from petsync.table.options import ReadOptions

    for option, name in (("--sheet", "tab"), ("--correct", "corrections")):
        if options.get(name):
            raise click.UsageError(f"{option} cannot apply to {path}, which is checked in parts.")
    return check_files(path, ReadOptions.of(options))


def _suggest_after_check(
    context: Context, read: Sheet, path: Path | str, *, is_marked: bool, is_refused: bool
) -> None:
    """Suggest mapping the headers that are similar to missing columns, marking the cells with
    errors or, if there are none or they are marked, planning.
    """
    mapping = _find_mapping(read)
    if mapping:
        options = [word for pair in mapping for word in ("--column", pair)]
        context.suggest("check", path, *options, repeat=READING, url=False)
    elif read.errors and not is_marked and read.tab:
        copy = Path(path).with_name(f"{Path(path).stem}.marked.xlsx")
        context.suggest("check", path, "--annotate", copy, repeat=None, url=False)
    elif is_refused:
        context.suggest("check", path, repeat=READING, url=False)
    else:
        context.suggest("plan", path, repeat=READING, url=True)


def _find_mapping(sheet: Sheet) -> list[str]:
    """Return HEADER=COLUMN for each missing column that one unused header probably means."""
    headers: dict[str, list[str]] = {}
    for each in sheet.problems:
        is_header = each.rule in ("header-near-miss", "header-renamed")
        if is_header and each.meant and each.meant not in sheet.columns:
            headers.setdefault(each.meant, []).append(each.value)
    return [f"{each[0]}={column}" for column, each in headers.items() if len(each) == 1]


def _annotate(context: Context, sheet: Sheet, path: Path) -> None:
    done = ps.annotate_sheet(sheet, path)
    cells = "1 cell is" if done.cells == 1 else f"{done.cells:,} cells are"
    context.say(f"{cells} marked in {path}.")
    for line in done.lost:
        context.say(f"note: {line}")


# `petsync export`: the store's catalogue as a spreadsheet.


_SUFFIXES = (".xlsx", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
_SHEETS_TO_EDIT = (".xlsx", ".csv", ".tsv")
_EXPORT_EXAMPLES = """
petsync export catalogue.xlsx
petsync export for-sale.csv --status available --status pending
petsync export friendly.xlsx --tag friendly
"""


@as_command("export", examples=_EXPORT_EXAMPLES)
@click.argument("out", type=SheetPath())
@click.option("--status", "statuses", multiple=True, help="Only pets with this status; repeatable.")
@click.option("--tag", "tags", multiple=True, help="Only pets with this tag; repeatable.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("parquet",)),
    help="parquet: make OUT a folder of Parquet files, for a catalogue that does not fit into "
    "memory.",
)
@click.option(
    "--no-base",
    is_flag=True,
    help="Omit the base, by which a plan distinguishes your changes from those of others.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace OUT even if it was edited, is not an export, or is open; petsync makes a backup.",
)
@click.pass_obj
def export_command(
    context: Context,
    out: Path | str,
    statuses: tuple[str, ...],
    tags: tuple[str, ...],
    form: str | None,
    no_base: bool,
    force: bool,
) -> int:
    """Write the store's pets to OUT: .xlsx, .csv, .tsv, .json, .jsonl or .parquet.

    The file is written completely or not at all. If OUT is an export without edits, it is replaced.
    petsync refuses to replace a file that was edited, is not an export, or is open in a program;
    --force replaces it and makes a backup. An .xlsx contains a base, and a .csv or .tsv has it in
    the file OUT.petsync-base beside it: a later plan then contains only what you edited. With
    several statuses or tags, a pet must have one of the statuses and one of the tags. An export
    without pets does not replace a file that has content. With `--format parquet`, OUT is a new or
    empty folder, or an address such as s3://bucket/pets, and gets the base in the folder
    .petsync-base.
    """
    suffix = PurePath(out).suffix
    if form is not None:
        if suffix.lower() in _SUFFIXES:
            raise click.UsageError(f"{out}: --format parquet makes a folder; leave out {suffix}.")
        _check_folder_options(tags, force=force)
        return _export_folder(context, out, statuses, with_base=not no_base)
    if isinstance(out, str):
        raise click.UsageError(f"{out} is an address: only --format parquet writes to one.")
    _check_ending(out)
    if not force:
        _check_file(out)
    find_url = partial(_find_url_of_export, out)
    with context.connect(find_url) as store, context.busy("Reading the store"):
        base = _read_base(store, statuses, tags)
    if not len(base) and out.is_file() and out.stat().st_size:
        raise PetsyncError(
            f"{base.store} has no pet to export, and {out} is not empty: it was not replaced",
            hint="If you want to replace it, delete the file first.",
        )
    settings = context.settings
    default_statuses = profile_from(settings.profile, settings.service).statuses
    backup = ps.write_sheet(
        base.pets, out, base=False if no_base else base, statuses=default_statuses, force=force
    )
    text = "1 pet of {} is" if len(base) == 1 else f"{len(base):,} pets of {{}} are"
    context.say(f"{text.format(base.store)} in {out}.")
    if backup is not None:
        context.say(f"The earlier version of the file is in {backup}.")
    if context.as_json:
        document = {"file": str(out), "pets": len(base), "store": base.store}
        context.show_json(document if backup is None else {**document, "backup": str(backup)})
    if suffix.lower() in _SHEETS_TO_EDIT:
        context.suggest("plan", out, url=no_base)
    return 0


def _find_url_of_export(path: Path) -> tuple[str, str]:
    """Return the store's address in the export that is to be replaced, and the export's path; ""
    for both if the file is not an export.
    """
    with suppress(SheetError):
        return find_url_of(path) if path.is_file() else ("", "")
    return "", ""


def _check_folder_options(tags: tuple[str, ...], *, force: bool) -> None:
    given = [flag for flag, value in (("--tag", tags), ("--force", force)) if value]
    if given:
        raise click.UsageError(f"{' and '.join(given)} cannot apply to a folder of Parquet files.")


def _export_folder(
    context: Context, out: Path | str, statuses: tuple[str, ...], *, with_base: bool
) -> int:
    with context.connect() as store, context.busy("Reading the store"):
        pets, url = store.export_to(out, statuses=statuses, base=with_base), store.url
    text = "1 pet of {} is" if pets == 1 else f"{pets:,} pets of {{}} are"
    context.say(f"{text.format(url)} in the folder {out}.")
    if context.as_json:
        context.show_json({"folder": str(out), "pets": pets, "store": url})
    context.suggest("plan", out, url=isinstance(out, str) or not with_base)
    return 0


def _check_file(out: Path) -> None:
    """Raise SheetError, before the store is read, if the file must not be replaced."""
    with exiting_on_signal():
        from petsync.sheets.results import check_replaceable
    check_replaceable(out, force="--force")


def _check_ending(out: Path) -> None:
    if out.suffix.lower() == ".ods":
        raise click.UsageError(
            f"{out}: petsync does not write OpenDocument sheets (.ods); use .xlsx."
        )
    if out.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"{out}: the file extension must be one of {', '.join(_SUFFIXES)}.")


def _read_base(store: Store, statuses: tuple[str, ...], tags: tuple[str, ...]) -> Base:
    # Import pandas only to read a store.
    from petsync.table.arrow import PetTable
    from petsync.table.base import Base

    if not tags:
        return store.snapshot(statuses=statuses).as_base()
    taken_at = datetime.now(UTC).isoformat(timespec="microseconds")
    pets = store.find_by_tags(*tags)
    wanted = pets[pets["status"].isin(statuses)] if statuses else pets
    return Base(
        pets=PetTable(frame=wanted[wanted["id"].notna()].sort_values("id", ignore_index=True)),
        store=store.url,
        taken_at=taken_at,
        statuses=statuses,
        tags=tags,
    )


# `petsync plan`: show what would change, without sending anything.


FORMATS = ("text", "json", "html", "xlsx", "md")
_BY_SUFFIX = {
    ".json": "json",
    ".parquet": "json",
    ".html": "html",
    ".htm": "html",
    ".xlsx": "xlsx",
    ".md": "md",
    ".txt": "text",
}
_DEFAULT_ROWS = {"text": 20, "md": 100}
"""The default number of rows of each kind that are printed."""
_PLAN_EXAMPLES = """
petsync plan catalogue.xlsx
petsync plan catalogue.xlsx -o plan.json -o plan.html
petsync plan catalogue.xlsx --delete-missing --max-delete 25
petsync plan arrivals.csv --match-on name --exit-code
petsync plan catalogue.xlsx --why 4711
petsync plan catalogue.xlsx --only 4711 --only-field status
"""


@as_command("plan", examples=_PLAN_EXAMPLES)
@click.argument("sheet", type=SheetPath())
@file_option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    help="Save the plan: as .json to apply it later, or as .parquet if it is very long; as .html, "
    ".xlsx, .md or .txt to read it; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to print: text, json, html, or md for a pull request; xlsx needs -o.  [text]",
)
@limit_option(
    help="How many rows of each kind to print; 0 for all (md: as many as fit into a "
    "comment).  [20; md: 100]",
)
@click.option(
    "--why",
    "why_pets",
    type=PetName(),
    multiple=True,
    metavar="ID|NAME",
    help="Print which rules decide about this pet, instead of the plan; repeatable.",
)
@select_options
@plan_options
@dask_option
@memory_option
@click.option(
    "--exit-code", is_flag=True, help="Let the exit code show the result, as described above."
)
@click.pass_obj
def plan_command(
    context: Context,
    sheet: Path | str,
    outputs: tuple[Path, ...],
    form: str | None,
    limit: int | None,
    why_pets: tuple[int | str, ...],
    selection: Selection,
    compare_options: CompareOptions,
    exit_code: bool,
) -> int:
    """Show the changes that SHEET would make in the store.

    SHEET is a workbook (.xlsx, .xlsm, .ods, .xls, .xlsb), text (.csv, .tsv, .txt, .json, .jsonl,
    also with .gz or .zst) or a .parquet file, or - for standard input; or a folder or pattern
    ('pets/*.csv') of .parquet, .csv or .jsonl files, which may be at an address such as
    s3://bucket/pets. Folders are compared in little memory, however many and large their files are.
    petsync only reads from the store. A missing column or a blank cell changes nothing; [clear]
    empties a field; a row without an id is a new pet.

    Exit codes: 4 if the guard refuses the plan, else 0. With --exit-code, instead of 0: 2 if there
    are changes; else 5 if rows are in conflict with the store; else 3 if errors block rows or pets
    could not be looked up; else 0. With --why always 0.
    """
    if why_pets:
        _check_why_options(form, outputs, selection, exit_code=exit_code)
        return _explain(
            context, sheet, compare_options, why_pets, as_json=context.as_json or form == "json"
        )
    given_form = form
    form = choose_format(context, form, outputs)
    for path in outputs:
        check_output(path, sheet, given_form)
    text = "Comparing the sheet with the store"
    find_url, find_job = partial(find_url_of, sheet), partial(find_job_of_file, path=sheet)
    connected = context.connect(find_url, find_job=find_job)
    with connected as store, progress.show_lookups(context.err, text) as step:
        plan, read = plan_from_sheet(store, sheet, compare_options, step, selection)
    warn_of_coverage(context, plan.coverage)
    if plan.changes:
        _warn_of_missing_write(context, store)
    save_and_print(context, plan, outputs, form, limit)
    code = verdict_code(plan)
    if code == GuardError.exit_code:
        context.say("error: the guard refuses this plan; it would not be applied", "bold red")
        return code
    if form == "text":
        _suggest_after_plan(context, plan, read, sheet, outputs)
    return code if exit_code else 0


def _warn_of_missing_write(context: Context, store: Store) -> None:
    try:
        store.api.aio.session.require_write()
    except AuthError as error:
        context.say(f"warning: {error.problem}. {error.cure}", "yellow")


def _suggest_after_plan(
    context: Context, plan: Plan, sheet: Sheet, path: Path | str, outputs: Sequence[Path]
) -> None:
    """Suggest applying the plan or, if it has no changes, listing the mistakes in the sheet."""
    saved = find_saved_plan(outputs)
    if plan.changes and saved is not None:
        context.suggest("apply", saved, url=False)
    elif plan.changes:
        names_store = sheet.base is not None and sheet.base.store == plan.store
        context.suggest("apply", path, repeat=COMPARING, url=not names_store)
    elif plan.blocked and not (isinstance(path, str) or is_in_parts(path)):
        context.suggest("check", path, repeat=READING, url=False)


def find_saved_plan(outputs: Iterable[Path]) -> Path | None:
    """Return the first of the files that is a saved plan for `petsync apply`, None if none is."""
    return next((path for path in outputs if path.suffix.lower() in (".json", ".parquet")), None)


def save_and_print(
    context: Context, plan: Plan, outputs: Sequence[Path], form: str, limit: int | None
) -> None:
    """Save the plan in the files, and print it. HTML and Markdown are not printed if a file has the
    same format.
    """
    kinds = [save(plan, path, form, limit) for path in outputs]
    if context.as_json or form not in kinds or form in ("text", "json"):
        print_plan(context, plan, form, limit)
    for path in outputs:
        context.say(f"Saved {path}.")


def save(plan: Plan, path: Path, form: str = "text", limit: int | None = 0) -> str:
    """Write the plan in the format of the path's suffix, else of `form`, and return the format.

    Text and Markdown have the first `limit` rows of each kind, 0 for all; with None, text has all
    rows, and Markdown has the first 100.
    """
    kind = _BY_SUFFIX.get(path.suffix.lower(), form)
    if kind == "html":
        write_atomically(path, _html(plan), like=plan.source, error=SheetError)
    elif kind == "xlsx":
        from petsync.report.workbook import plan_workbook

        plan_workbook(plan, path)
    elif kind == "text":
        from petsync.report.text import plain_text
        from petsync.report.views.plan import plan_view

        text = plain_text(plan_view(plan, limit=limit or None)).encode() + b"\n"
        write_atomically(path, text, like=plan.source, error=SheetError)
    elif kind == "md":
        write_atomically(path, _markdown(plan, limit), like=plan.source, error=SheetError)
    else:
        from petsync.apply.planfile import save_plan

        save_plan(plan, path)
    return kind


def check_output(path: Path, sheet: Path | str | None, form: str | None) -> None:
    """Raise UsageError if a plan of the sheet cannot be saved to the path."""
    # A file without a suffix is written in the format that --format names.
    if path.suffix.lower() not in _BY_SUFFIX and (path.suffix or form is None):
        raise click.UsageError(
            f"{path}: the file extension must be one of {', '.join(_BY_SUFFIX)}."
        )
    if sheet is not None:
        must_differ(path, sheet)
    must_be_writable(path)
    kind = _BY_SUFFIX.get(path.suffix.lower(), form)
    must_not_replace_work(path, kind)
    if kind == "json":
        from petsync.apply.planfile import is_replaceable

        if not is_replaceable(path):
            raise click.UsageError(f"{path} is not a plan: it would be overwritten.")
    if path.suffix.lower() == ".parquet" and isinstance(sheet, Path):
        _must_not_be_part(path, sheet)


def _must_not_be_part(path: Path, sheet: Path) -> None:
    """Raise UsageError if the file would become a part of the sheet."""
    folder = sheet if sheet.is_dir() else sheet.parent
    is_part = sheet.is_dir() or (not sheet.is_file() and fnmatch(path.name, sheet.name))
    if is_part and path.parent.resolve() == folder.resolve():
        raise click.UsageError(f"{path} would be a part of the sheet: use another folder.")


def choose_format(context: Context, form: str | None, outputs: Sequence[Path]) -> str:
    """Return the format to print. Raises UsageError if the options contradict each other, or if
    xlsx is not written to a file.
    """
    if context.as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other.")
    if form == "xlsx" and not outputs:
        raise click.UsageError("--format xlsx needs -o FILE.xlsx.")
    return "json" if context.as_json else form or "text"


def _check_why_options(
    form: str | None, outputs: Sequence[Path], selection: Selection, *, exit_code: bool
) -> None:
    given = "-o" if outputs else "--exit-code" if exit_code else f"--format {form}"
    if selection:
        given = "--only" if selection.pets else "--only-field"
    if selection or outputs or exit_code or form not in (None, "text", "json"):
        raise click.UsageError(f"--why prints an explanation instead of a plan: leave {given} out.")


def _explain(
    context: Context,
    sheet: Path | str,
    compare_options: CompareOptions,
    given: Sequence[int | str],
    *,
    as_json: bool,
) -> int:
    text = "Comparing the sheet with the store"
    find_url, find_job = partial(find_url_of, sheet), partial(find_job_of_file, path=sheet)
    connected = context.connect(find_url, find_job=find_job)
    with connected as store, progress.show_lookups(context.err, text) as step:
        explanations = explain_sheet(store, sheet, compare_options, given, step)
    if as_json:
        from petsync.report.json import explanations_json

        context.show(explanations_json(explanations))
    else:
        from petsync.report.views.explain import explanations_view

        context.show_view(explanations_view(explanations))
    return 0


def print_plan(context: Context, plan: Plan, form: str, limit: int | None) -> None:
    """Print the plan in this format on standard output."""
    if form == "json":
        context.show(plan.to_json())
    elif form == "html":
        context.show(_html(plan))
    elif form == "md":
        context.show(_markdown(plan, limit))
    else:
        from petsync.report.views.plan import plan_view

        context.show_view(plan_view(plan, limit=_row_limit("text", limit)))


def _row_limit(form: str, limit: int | None) -> int | None:
    """Return the number of rows of each kind to show, None for all."""
    return _DEFAULT_ROWS[form] if limit is None else limit or None


def _markdown(plan: Plan, limit: int | None) -> bytes:
    from petsync.report.markdown import document_markdown
    from petsync.report.views.plan import plan_view

    view = plan_view(plan, limit=_row_limit("md", limit), has_fingerprint=True)
    return document_markdown(view).encode()


def _html(plan: Plan) -> bytes:
    from petsync.report.html import document_page
    from petsync.report.views.plan import plan_page_view, plan_title

    return document_page(plan_page_view(plan), plan_title(plan)).encode()


# `petsync rehearse`: apply a plan to a copy of the store.


_SHEETS = (".xlsx", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
_REHEARSE_EXAMPLES = """
petsync rehearse plan.json
petsync rehearse catalogue.xlsx --delete-missing -o after.xlsx
petsync rehearse plan.json --faults 429=0.05,drop_after=0.02 --seed 7
"""


@as_command("rehearse", examples=_REHEARSE_EXAMPLES)
@click.argument("source", metavar="PLAN|SHEET", type=SheetPath())
@click.option(
    "--faults",
    default="",
    metavar="SPEC",
    help="Make some requests to the copy fail. SPEC is as for `petsync serve --faults`.",
)
@click.option("--seed", type=int, metavar="N", help="Decides which requests fail.  [0]")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=16,
    metavar="N",
    help="The maximum number of changes at the same time; with 1, the same --seed makes the same "
    "requests fail.  [16]",
)
@file_option(
    "-o",
    "--output",
    help="Write the pets of the resulting store: .xlsx, .csv, .tsv, .json, .jsonl or .parquet.",
)
@file_option(
    "--keep",
    help="Save the copy in a new file, for `petsync serve --db FILE`.",
)
@file_option(
    "--report",
    "page",
    help="Write the result as an HTML page.",
)
@plan_options
@click.pass_obj
@needs_extra("sandbox", "`petsync rehearse`")
def rehearse_command(
    context: Context,
    source: Path | str,
    faults: str,
    seed: int | None,
    concurrency: int,
    output: Path | None,
    keep: Path | None,
    page: Path | None,
    compare_options: CompareOptions,
) -> int:
    """Apply a plan, or the plan of a sheet, to a copy of the store, and show the result.

    petsync copies the store to this machine and applies the plan to the copy as `petsync apply`
    does. The store does not change, and the plan does not count as applied. Then petsync makes a
    second plan from the same sheet, which should be empty. Needs the extra `sandbox`.

    Exit codes: 0 if everything went as planned, 2 if the second plan is not empty, 3 if
    rows failed, errors block rows, or a pet differs from the plan, 4 if the guard refuses the plan
    (petsync rehearses it anyway), 5 for conflicts or a plan that was applied before, 7 if the run
    would stop early or was interrupted.
    """
    is_plan = is_saved_plan(source)
    _check_files(source, output, keep, page)
    must_still_wait(context, source)
    _check_faults(faults, seed)
    if is_plan and compare_options:
        raise click.UsageError(
            f"The options of a saved plan are fixed: leave out {compare_options.flags}."
        )
    if compare_options.planning.get("scope") == "rows":
        raise click.UsageError("--scope rows: a rehearsal copies every pet of the store.")
    options: dict[str, Any] = {
        "faults": faults,
        "seed": seed,
        "concurrency": concurrency,
        "keep": keep,
    }
    with exiting_on_signal():
        import_module("petsync.rehearsal")
    try:
        find_job = partial(find_job_of_file, path=source)
        with context.connect(partial(find_url_of, source), find_job=find_job) as store:
            written = (output, keep, page)
            sheet_options_given = None if is_plan else compare_options
            rehearsal = _rehearse(context, store, source, sheet_options_given, written, options)
    except (KeyboardInterrupt, click.Abort):
        raise InterruptedRunError(
            "the rehearsal was interrupted", hint="The store itself was not changed."
        ) from None
    _write_results(context, rehearsal, output, page)
    if keep is not None:
        db = quote(str(keep))
        context.say(f"The copy is in {keep}: `petsync serve --no-auth --db {db}` serves it.")
    if not rehearsal.exit_code:
        context.suggest("apply", source, repeat=COMPARING, url=True)
    return rehearsal.exit_code


def _rehearse(
    context: Context,
    store: Store,
    source: Path | str,
    compare_options: CompareOptions | None,
    written: Iterable[Path | None],
    options: dict[str, Any],
) -> Rehearsal:
    from petsync.rehearsal import rehearse

    sheet: Sheet | None = None
    with progress.show_lookups(context.err, "Reading the store") as show_lookups:
        if compare_options is None:
            plan = _load_plan(store, Path(source))
            _protect_sheet(plan, written)
            snapshot = store.snapshot()
        elif is_in_parts(source):
            plan, _ = plan_from_sheet(store, source, compare_options, show_lookups)
            snapshot = store.snapshot()
        else:
            snapshot, sheet = read_inputs(store, source, compare_options.with_scope("all"))
            plan = store.plan(
                sheet, snapshot=snapshot, on_progress=show_lookups, **compare_options.planning
            )
            _protect_sheet(plan, written)
    with progress.show_progress(context.err, len(plan.changes), "Rehearsing") as step:
        return rehearse(store, plan, sheet=sheet, snapshot=snapshot, on_progress=step, **options)


def _protect_sheet(plan: Plan, written: Iterable[Path | None]) -> None:
    """Raise UsageError if a file would replace the sheet of the plan, and SheetError if it would
    replace another sheet that must not be replaced.
    """
    from petsync.sheets.results import check_replaceable

    for path in written:
        if path is not None and plan.source:
            must_differ(path, Path(plan.source))
        if path is not None and path.suffix.lower() in _SHEETS:
            check_replaceable(path)


def _load_plan(store: Store, path: Path) -> Plan:
    from petsync.apply.planfile import load_plan

    plan = load_plan(path)
    store.check(plan)
    return plan


def _write_results(
    context: Context, rehearsal: Rehearsal, output: Path | None, page: Path | None
) -> None:
    if output is not None:
        from petsync.sheets import write_sheet

        # Without a base: the file is not an export, and its new ids are from the copy.
        write_sheet(rehearsal.after, output, base=False)
    if page is not None:
        _save_page(rehearsal, page)
    if context.as_json:
        from petsync.report.json import rehearsal_json

        context.show(rehearsal_json(rehearsal))
    else:
        from petsync.report.views.rehearsal import rehearsal_view

        context.show_view(rehearsal_view(rehearsal, limit=5))
    if output is not None:
        context.say(f"The resulting store is in {output}.")
    if page is not None:
        context.say(f"The report is in {page}.")


def _save_page(rehearsal: Rehearsal, path: Path) -> None:
    from petsync.report.views.rehearsal import rehearsal_view

    source = rehearsal.plan.source
    title = f"Rehearsal of {Path(source).name}"
    save_page(path, rehearsal_view(rehearsal, limit=None), title, like=source)


def _check_files(
    source: Path | str, output: Path | None, keep: Path | None, page: Path | None
) -> None:
    """Raise UsageError, before any request, if a file could not be written."""
    written = [path for path in (output, keep, page) if path is not None]
    for path in written:
        must_differ(path, source)
        must_be_writable(path)
    if len({path.resolve() for path in written}) < len(written):
        raise click.UsageError("-o, --keep and --report need different files.")
    if output is not None and output.suffix.lower() not in _SHEETS:
        raise click.UsageError(
            f"-o {output}: the file extension must be one of {', '.join(_SHEETS)}."
        )
    check_page(page)
    if keep is not None and lexists(keep):
        raise click.UsageError(f"--keep {keep}: the file already exists; name a new one.")


def _check_faults(faults: str, seed: int | None) -> None:
    """Raise UsageError or SettingsError, before any request, for invalid faults."""
    if seed is not None and not faults:
        raise click.UsageError("--seed chooses the requests that --faults makes fail: give both.")
    if faults:
        from petsync.rehearsal.run import specification

        specification(faults, seed)
