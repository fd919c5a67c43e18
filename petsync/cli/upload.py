"""`petsync upload`: show images, ask, and upload them in bulk."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync._extras import needs_extra
from petsync._files import is_file, is_folder
from petsync.apply.options import UploadKeywords
from petsync.cli.context import (
    Context,
    SheetPath,
    confirm,
    must_be_writable,
    must_differ,
    show_progress,
)
from petsync.cli.context import command as as_command
from petsync.cli.options import (
    PENDING,
    check_page,
    file_option,
    find_url_of,
    keyword_options,
    save_uploaded,
)
from petsync.errors import InterruptedRunError, PetsyncError
from petsync.plan.options import PictureKeywords
from petsync.table.options import ReadKeywords

if TYPE_CHECKING:
    from petsync.plan.uploads import Pictures, UploadReport
    from petsync.store import Store

__all__ = ["command"]


_EXAMPLES = """
petsync upload photos
petsync upload photos --pattern "{id}-*" --max-side 2000
petsync upload catalogue.xlsx --column image --metadata-column caption
petsync upload photos --yes --json
"""


@as_command("upload", examples=_EXAMPLES)
@click.argument("source", metavar="FOLDER|SHEET", type=SheetPath())
@click.option("-y", "--yes", is_flag=True, help="Upload without asking.")
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    metavar="TEMPLATE",
    help="The pattern of the file names without the extension: {id}, {n} for the picture's number, "
    "* for any text; repeatable.  [{id}, {id}_{n}]",
)
@click.option("--recursive", is_flag=True, help="Include subfolders.")
@click.option("--column", metavar="HEADER", help="The column of SHEET with the file names.")
@keyword_options(ReadKeywords, "reading", tab="", encoding="")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder that the sheet's paths are relative to.  [the sheet's]",
)
@click.option(
    "--metadata-column", metavar="HEADER", help="The column of SHEET with additionalMetadata."
)
@click.option(
    "--metadata",
    metavar="TEXT",
    help="additionalMetadata for pictures without another caption.",
)
@keyword_options(PictureKeywords, "processing")
@keyword_options(UploadKeywords, "pacing")
@file_option(
    "--report",
    "page",
    help="Write the outcome of each file as an HTML page.",
)
@click.pass_obj
@needs_extra("images", "`petsync upload`")
def command(
    context: Context,
    /,
    source: Path | str,
    yes: bool,
    patterns: tuple[str, ...],
    recursive: bool,
    column: str | None,
    reading: dict[str, Any],
    folder: Path | None,
    page: Path | None,
    pacing: dict[str, Any],
    metadata_column: str | None,
    metadata: str | None,
    processing: dict[str, Any],
) -> int:
    """Upload pictures to their pets.

    The files in FOLDER are named after pet ids: 7.jpg, 7_2.png. In a SHEET, the column of --column
    names the files. petsync decodes every file completely and looks up its pet; then it shows what
    it would send, and asks. Without --yes and without a terminal, it uploads nothing.

    Without --again, a picture that was uploaded to the same pet before is not sent again: after
    Ctrl-C or a failure, the same command continues. A pet's pictures are sent in order. Needs the
    extra `images`.

    Exit codes: 0, 2 if there are pictures that you did not confirm, 3 if some files were not
    uploaded, 6 if another run uses this store, 7 if stopped.
    """
    of_sheet = (*reading.values(), folder, metadata_column)
    _check(source, column, page, patterns, recursive, *of_sheet)
    if patterns:
        processing["pattern"] = patterns
    try:
        # A folder of pictures names no store.
        with context.connect(partial(find_url_of, source if column else "")) as store:
            with show_progress(context.err, 0, "Looking at pictures", unit="files") as on_scan:
                pictures = store.pictures(
                    source,
                    column=column,
                    folder=folder,
                    recursive=recursive,
                    on_progress=on_scan,
                    metadata_column=metadata_column,
                    metadata=metadata,
                    **reading,
                    **processing,
                )
            if not _confirm(context, pictures, yes):
                return PENDING
            report, error = _upload(context, store, pictures, **pacing)
    except (KeyboardInterrupt, click.Abort):
        raise InterruptedRunError(
            "interrupted",
            hint="Run the same command again: it uploads only the remaining pictures.",
        ) from None
    # Write the page first, because printing fails if standard output is a closed pipe.
    lines, page_code = _write_page(report, page)
    code = report.exit_code or page_code
    _print(context, report, code)
    for line, style in lines:
        context.say(line, style)
    if error is not None:
        context.say(f"error: {error.problem}", "bold red")
        context.say(error.cure)
    return code


def _check(
    source: Path | str,
    column: str | None,
    page: Path | None,
    patterns: tuple[str, ...],
    recursive: bool,
    *of_sheet: object,
) -> None:
    """Raise UsageError for options that cannot be combined, or for a page that cannot be
    written.
    """
    if isinstance(source, str):
        raise click.UsageError(f"{source} is an address: name a folder or a sheet on this machine.")
    if column is not None and is_folder(source):
        raise click.UsageError(f"{source} is a folder; --column is for a SHEET.")
    if column is None and is_file(source):
        raise click.UsageError(
            f"{source} is a file: name its column with the file names, with --column."
        )
    if column is None and any(each is not None for each in of_sheet):
        raise click.UsageError(
            "--sheet, --encoding, --folder and --metadata-column work only with --column."
        )
    if column is not None and (patterns or recursive):
        raise click.UsageError("--pattern and --recursive are for a FOLDER.")
    if page is not None:
        must_differ(page, source)
        must_be_writable(page)
        check_page(page)


def _confirm(context: Context, pictures: Pictures, yes: bool) -> bool:
    """Show the pictures, and return true if they are to be uploaded: `yes` is set, the user agrees,
    or there are none.
    """
    from petsync.report.text import show
    from petsync.report.views.images import pictures_view

    show(pictures_view(pictures), context.err)
    total = len(pictures.to_send)
    if yes or not total:
        return True
    pictures_text = "this picture" if total == 1 else f"these {total:,} pictures"
    if confirm(
        context,
        f"Upload {pictures_text} to {pictures.store}?",
        "Nothing was sent",
        ": without a terminal this is a dry run. --yes uploads the pictures.",
    ):
        return True
    if context.as_json:
        document = {"dry_run": True, "store": pictures.store, "pictures": total}
        blocked = len(pictures.blocked)
        document |= {"bytes": pictures.total_bytes, "blocked": blocked, "exit_code": PENDING}
        context.show_json(document)
    return False


def _upload(
    context: Context, store: Store, pictures: Pictures, **options: Any
) -> tuple[UploadReport, InterruptedRunError | None]:
    from petsync.plan.uploads import UploadReport

    with show_progress(context.err, 0, "Uploading", unit="files") as step:
        try:
            return store.upload(pictures, on_progress=step, **options), None
        except InterruptedRunError as error:
            if not isinstance(error.report, UploadReport):
                raise
            return error.report, error


def _write_page(report: UploadReport, page: Path | None) -> tuple[list[tuple[str, str]], int]:
    """Write the page if requested; return messages with their styles, and an exit code, which is
    not 0 if the page could not be written. The upload itself is complete.
    """
    if page is None:
        return [], 0
    try:
        save_uploaded(report, page)
    except PetsyncError as error:
        return [(f"error: {error.problem}", "bold red"), (error.cure, "")], error.exit_code
    return [(f"The report is in {page}.", "")], 0


def _print(context: Context, report: UploadReport, exit_code: int) -> None:
    if context.as_json:
        context.show(report.to_json(exit_code=exit_code))
    else:
        from petsync.report.views.images import uploaded_view

        context.show_view(uploaded_view(report))
