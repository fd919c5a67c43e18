"""Draw docs/workbook.png and docs/workbook-guide.png, the workbook that `petsync export` writes:
`python docs/workbook.py`. It needs LibreOffice (`soffice`) and Poppler (`pdftoppm`).
"""

from __future__ import annotations

import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
from openpyxl.worksheet.header_footer import HeaderFooter

from petsync.models import Category, Pet
from petsync.plan.change import Coverage, Snapshot
from petsync.profile import STANDARD
from petsync.samples import sample_data
from petsync.sheets import write_sheet
from petsync.table.arrow import PetTable
from petsync.table.decode import table_from_json
from petsync.table.frame import frame_from_pets

__all__ = ["draw"]

_HERE = Path(__file__).parent
_MOMENT = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
_ROWS = 17
_DENSITY = 104


def draw(folder: Path) -> tuple[Path, Path]:
    """Draw the pets and the guide into a folder."""
    workbook = folder / "catalogue.xlsx"
    snapshot = _snapshot()
    write_sheet(_edited(snapshot.frame), workbook, base=snapshot)
    _show_headings(workbook)
    profile = f"-env:UserInstallation={(folder / 'office').as_uri()}"
    _run("soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", folder, workbook)
    pages = [_page(folder, number) for number in (1, 2)]
    return pages[0], pages[1]


def _snapshot() -> Snapshot:
    return Snapshot(
        pets=PetTable(table_from_json((sample_data() / "store.json").read_bytes())),
        coverage=Coverage(STANDARD.statuses),
        source="https://shop.example/v2",
        taken_at=_MOMENT,
    )


def _edited(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the first pets and a new one, with a user's actions for some of them."""
    some = frame.head(_ROWS)
    new = frame_from_pets([Pet(name="Momo", status="available", category=Category(2, "Cats"))])
    actions = ["merge"] * _ROWS + ["add"]
    actions[6] = "delete"
    return pd.concat([some, new], ignore_index=True).assign(action=actions)


def _show_headings(workbook: Path) -> None:
    """Print the letters and numbers of columns and rows, as the screen shows them."""
    book = openpyxl.load_workbook(workbook)
    book["Pets"].print_options.headings = True
    for sheet in book:
        sheet.HeaderFooter = HeaderFooter()
    book.save(workbook)


def _page(folder: Path, number: int) -> Path:
    """Return one page as a picture, without its white margins."""
    name = folder / f"page{number}"
    draft = _drawn(folder, number, name)
    where = np.argwhere(_pixels(draft) < 255)
    (top, left), (bottom, right) = where.min(axis=0) - 12, where.max(axis=0) + 12
    box = ("-x", left, "-y", top, "-W", right - left, "-H", bottom - top)
    return _drawn(folder, number, name, "-png", *box)


def _drawn(folder: Path, number: int, name: Path, *options: object) -> Path:
    page = ("-singlefile", "-r", _DENSITY, "-f", number, "-l", number)
    _run("pdftoppm", *page, *options, folder / "catalogue.pdf", name)
    return name.with_suffix(".png" if "-png" in options else ".ppm")


def _pixels(picture: Path) -> np.ndarray[Any, Any]:
    """Return the darkest colour value of each pixel of a PPM picture."""
    _, size, _, data = picture.read_bytes().split(b"\n", 3)
    width, height = map(int, size.split())
    pixels: np.ndarray[Any, Any] = np.frombuffer(data, np.uint8).reshape(height, width, 3)
    darkest: np.ndarray[Any, Any] = pixels.min(axis=2)
    return darkest


def _run(*command: object) -> None:
    arguments = [str(part) for part in command]
    subprocess.run(arguments, check=True, capture_output=True)  # noqa: S603 - our own words


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for drawn, name in zip(draw(Path(folder)), ("workbook", "workbook-guide"), strict=True):
            (_HERE / f"{name}.png").write_bytes(drawn.read_bytes())
