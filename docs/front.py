"""Draw docs/site.png and docs/site-dark.png, the front page of the documentation site in Chromium:
`python docs/front.py`.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

sys.path.append(str(Path(__file__).parents[1] / "tests" / "browser"))

from chromium import open_chromium

__all__ = ["draw"]

_HERE = Path(__file__).parent
_PICTURES = {"site.png": "light", "site-dark.png": "dark"}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log no request."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Yield the address of the site: the search works only from a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()


def draw(folder: Path) -> Iterator[Path]:
    """Build the site and draw the pictures into a folder."""
    site = folder / "site"
    build(load_config(str(_HERE.parent / "mkdocs.yml"), site_dir=str(site)))
    with _served(site) as address, open_chromium() as chromium:
        for name, look in _PICTURES.items():
            tab = chromium.new_page(color_scheme=look, viewport={"width": 1280, "height": 1130})
            tab.goto(address)
            tab.get_by_role("textbox", name="Search").wait_for()
            tab.screenshot(path=folder / name)
            yield folder / name


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as drawn_here:
        for drawn in draw(Path(drawn_here)):
            (_HERE / drawn.name).write_bytes(drawn.read_bytes())
