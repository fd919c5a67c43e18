"""Past runs as lines: a list of them, and all that they did to one pet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from petsync.diff.history import Entry, Past
from petsync.diff.standing import undone_by
from petsync.diff.uploaded import UploadedFile
from petsync.render import lines, runs_words, words
from petsync.render.change_lines import one_change
from petsync.render.visible import visible

__all__ = ["deeds_lines", "pet_lines", "runs_lines"]

_INDENT = 4
_STATE = {"done": "green", "stopped": "red", "running": "yellow"}
_HEAD = f"  {'run':<20}  {'begun':<23}  {'what':<6}  {'state':<7}  took"


def runs_lines(runs: Sequence[Past], *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The first `limit` runs, two lines or more each, and their stores if there are several."""
    if not runs:
        yield Text("No run is known.")
        return
    stores = list(dict.fromkeys(run.store for run in runs))
    undone = undone_by(runs)
    shown = runs if limit is None else runs[:limit]
    yield Text(_HEAD, "dim")
    for run in shown:
        yield _head(run)
        on = f" on {visible(run.store)}" if len(stores) > 1 else ""
        said = f"{runs_words.what(run)}{on}: {runs_words.comes_to(run)}"
        back = runs_words.taken_back(run, undone.get(run.run_id))
        yield from lines.paragraph("; ".join(filter(None, (said, back))), width, indent=_INDENT)
    yield from lines.more(len(runs) - len(shown))


def pet_lines(
    pet_id: int, deeds: Sequence[tuple[Past, Entry]], *, width: int = 80
) -> Iterator[Text]:
    """All that the runs did, or meant to do, to a pet, before and after, in their order."""
    if not deeds:
        yield Text(f"No run that is known did anything to pet {pet_id}.")
        return
    yield Text(f"Pet {pet_id}: {words.count(len(deeds), 'change')}, the newest first", "bold")
    for run, entry in deeds:
        yield lines.BLANK
        yield _head(run)
        yield from lines.paragraph(runs_words.what(run), width, indent=_INDENT, style="dim")
        yield from _deed(entry, width)


def deeds_lines(
    run: Past,
    entries: Sequence[Entry],
    *,
    limit: int | None = 20,
    width: int = 80,
    files: Sequence[UploadedFile] = (),
) -> Iterator[Text]:
    """A run, and what became of the first `limit` of its changes, or of its files."""
    yield Text(_HEAD, "dim")
    yield _head(run)
    said = f"{runs_words.what(run)} on {visible(run.store)}: {runs_words.comes_to(run)}"
    yield from lines.paragraph(said, width, indent=_INDENT)
    if files:
        yield from _files(files, {entry.number: entry for entry in entries}, limit, width)
        return
    shown = entries if limit is None else entries[:limit]
    for entry in shown:
        yield from _deed(entry, width)
    yield from lines.more(len(entries) - len(shown))


def _files(
    files: Sequence[UploadedFile], entries: Mapping[int, Entry], limit: int | None, width: int
) -> Iterator[Text]:
    """Each file with what became of it, and of its pet."""
    shown = files if limit is None else files[:limit]
    for number, file in enumerate(shown):
        style = "" if file.outcome == "applied" else lines.STYLE["conflict"]
        told = runs_words.of_file(file)
        yield from lines.paragraph(told, width, indent=_INDENT, style=style)
        entry = entries.get(number)
        change = None if entry is None else runs_words.as_change(entry)
        if change is not None:
            yield from one_change(change, width)
    yield from lines.more(len(files) - len(shown))


def _head(run: Past) -> Text:
    left = f"  {visible(run.run_id):<20}  {words.moment(run.started):<23}  {run.kind:<6}  "
    state = (f"{run.state:<7}", _STATE[run.state])
    return Text.assemble((left, "bold"), state, f"  {words.duration(run.seconds)}")


def _deed(entry: Entry, width: int) -> Iterator[Text]:
    style = "" if entry.outcome == "applied" else lines.STYLE["conflict"]
    yield from lines.paragraph(runs_words.became(entry), width, indent=_INDENT, style=style)
    change = runs_words.as_change(entry)
    if change is not None:
        yield from one_change(change, width)
