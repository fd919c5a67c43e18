"""Draw docs/site.png and docs/site-dark.png, the front page of the documentation site in Chromium:
`python docs/front.py`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

sys.path.append(str(Path(__file__).parents[1] / "tests" / "browser"))

from chromium import open_chromium
from serving import serve

__all__ = ["draw"]

_HERE = Path(__file__).parent
_PICTURES = {"site.png": "light", "site-dark.png": "dark"}


def draw(folder: Path) -> Iterator[Path]:
    """Build the site and draw the pictures into a folder."""
    site = folder / "site"
    build(load_config(str(_HERE.parent / "mkdocs.yml"), site_dir=str(site)))
    with serve(site) as address, open_chromium() as chromium:
        for name, look in _PICTURES.items():
            tab = chromium.new_page(color_scheme=look, viewport={"width": 1280, "height": 1130})
            tab.goto(f"{address}index.html")
            tab.get_by_role("textbox", name="Search").wait_for()
            tab.screenshot(path=folder / name)
            yield folder / name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as drawn_here:
        for drawn in draw(Path(drawn_here)):
            (_HERE / drawn.name).write_bytes(drawn.read_bytes())
