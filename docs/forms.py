"""Draw docs/forms/*.png, every form in both themes in Chromium: `python docs/forms.py`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import openpyxl
from PIL import Image, ImageOps
from playwright.sync_api import Browser, expect

_HERE = Path(__file__).parent
_BROWSER = _HERE.parent / "tests" / "browser"
sys.path[:0] = [str(_BROWSER), str(_BROWSER / "forms"), str(_BROWSER.parent / "support")]

from chromium import open_chromium  # noqa: E402
from fronts import View, Voila  # noqa: E402
from jupyters import House  # noqa: E402
from outside import Outside  # noqa: E402

import petsync as ps  # noqa: E402
from petsync.models import Pet  # noqa: E402
from petsync.sandbox import Sandbox  # noqa: E402

__all__ = ["draw"]

_TALLEST = 1180
_PORT = 8080
_EDITS: Mapping[int, Mapping[str, str]] = {
    3: {"status": "sold"},
    5: {"name": "Zoë the Second", "tags": "shy; good with kids"},
    7: {"status": "solld"},
    9: {"action": "delete"},
    11: {"name": "Kiwi Junior"},
    14: {"status": "pendng", "category": "Cats"},
}
"""The users' edits in the exported workbook, by row."""
FORMS: Mapping[str, tuple[str, str]] = {
    "login": ("ps.widgets.login(visitor)", "Begin"),
    "account": ("ps.widgets.login(store)", "Sign out"),
    "open_sheet": ("ps.widgets.open_sheet(store, 'catalogue.xlsx')", "solld"),
    "review": ("ps.widgets.review(store.plan('catalogue.xlsx'), store)", "will be sent"),
    "upload_images": ("upload", "1001-bella-2.png"),
    "browse": ("ps.widgets.browse(store)", "Bella"),
    "app": ("ps.widgets.app(store)", "Open a sheet"),
}
"""The code for each picture's form, and a text that it shows when it is ready."""


def draw(folder: Path) -> None:
    """Draw every picture into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with _shop() as (box, work), Outside() as outside, open_chromium() as browser:
        house = House(work / "house", outside.url)
        house.add_kernel("7.4")
        try:
            _draw_all(house, browser, box, work, folder)
        finally:
            house.close()


def _draw_all(house: House, browser: Browser, box: Sandbox, work: Path, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 1040, "height": 1400})
    voila = Voila(house.voila(work / "shop"), context)
    begin = (
        "import petsync as ps\n"
        f"store = ps.connect({box.url!r}, auth=ps.auth.bearer({box.token()!r}), state='state')\n"
        f"visitor = ps.connect({box.url!r}, state='other')\n"
        "upload = ps.widgets.upload_images(store, 1001)\n"
        "for name in ('1001-bella.png', '1001-bella-2.png'):\n"
        "    upload.add_path(name)"
    )
    for name, (code, text) in FORMS.items():
        for theme in ("light", "dark"):
            view = voila.open(f"{name}-{theme}", [begin, code], theme=theme)
            _wait(view, text)
            _picture(view, folder / f"{name}-{theme}.png")
            voila.close(view)


def _wait(view: View, text: str) -> None:
    expect(view.forms.first).to_contain_text(text, timeout=60_000)
    expect(view.forms.first.get_by_role("progressbar").locator("visible=true")).to_have_count(0)
    view.page.wait_for_load_state("networkidle")


def _picture(view: View, file: Path) -> None:
    """Save the form with a margin, cut to a maximum height, in few colours."""
    place = view.forms.first.bounding_box()
    assert place is not None
    height = min(place["height"] + 24, _TALLEST)
    view.page.set_viewport_size({"width": 1040, "height": int(place["y"] + height + 40)})
    clip = {"x": 0, "y": max(place["y"] - 12, 0), "width": 1040, "height": height}
    view.page.screenshot(path=file, clip=clip, animations="disabled")
    with Image.open(file) as drawn:
        drawn.convert("RGB").quantize(96, dither=Image.Dither.NONE).save(file, optimize=True)


@contextmanager
def _shop() -> Iterator[tuple[Sandbox, Path]]:
    """Yield a small shop, and the workbook that users edited while its store changed."""
    pets = msgspec.json.decode((ps.sample_data() / "store.json").read_bytes())
    with tempfile.TemporaryDirectory(prefix="petshop-") as name:
        work = Path(name)
        (work / "shop").mkdir()
        seed = work / "store.json"
        seed.write_bytes(msgspec.json.encode(pets[:60]))
        with Sandbox(port=_PORT, seed=seed) as box:
            _edit(box, work)
            yield box, work


def _edit(box: Sandbox, work: Path) -> None:
    file = work / "shop" / "catalogue.xlsx"
    with ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=work / "first") as store:
        ps.write_sheet(store.snapshot(), file)
    book = openpyxl.load_workbook(file)
    sheet = book.worksheets[0]
    titles = [str(cell.value).lower().replace(" ", "_") for cell in sheet[1]]
    for row, cells in _EDITS.items():
        for title, text in cells.items():
            sheet.cell(row, titles.index(title) + 1).value = text
    moved = int(str(sheet.cell(11, titles.index("id") + 1).value))
    book.save(file)
    pet = next(pet for pet in box.pets() if pet.id == moved)
    box.put(Pet(**{f: getattr(pet, f) for f in pet.__struct_fields__} | {"name": "Kiwi Bird"}))
    picture = ps.sample_data() / "images" / "1001-bella.png"
    shutil.copy(picture, work / "shop" / "1001-bella.png")
    with Image.open(picture) as drawn:
        ImageOps.mirror(drawn).save(work / "shop" / "1001-bella-2.png")


if __name__ == "__main__":
    draw(_HERE / "forms")
