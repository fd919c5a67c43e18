"""The documentation site: no build warnings, no broken links, nothing from other hosts."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
from apart import run_apart

import petsync
from petsync.cli.entry import cli
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
_SECONDS = 300
_QUIET = {"NO_MKDOCS_2_WARNING": "1"}
_LOADING = {"src", "srcset", "poster", "data", "action", "background"}
_LOADING_LINKS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "manifest"}
_IN_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
_WITH_PLANTED = """
import logging, sys
from mkdocs.commands.build import build
from mkdocs.config import load_config

logging.basicConfig(level=logging.WARNING)
file, docs, site = sys.argv[1:]
build(load_config(file, docs_dir=docs, site_dir=site, plugins=[]))
"""


class _Page(HTMLParser):
    """The addresses that a page loads, the addresses that it links to, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.leads: set[str] = set()
        self.ids: set[str] = set()
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and ids of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.loads |= {given[name].strip() for name in _LOADING & given.keys()}
        self.loads |= _addresses(given.get("style", ""))
        if tag == "link" and set(given.get("rel", "").split()) & _LOADING_LINKS:
            self.loads.add(given["href"])
        elif tag == "a" and "href" in given:
            self.leads.add(given["href"])
        self._is_style = tag == "style"

    def handle_data(self, data: str) -> None:
        """Collect the addresses in a style."""
        if self._is_style:
            self.loads |= _addresses(data)


def _addresses(style: str) -> set[str]:
    return {first or second for first, second in _IN_STYLE.findall(style)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built with `mkdocs build --strict`."""
    folder = tmp_path_factory.mktemp("site")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    env = os.environ | _QUIET
    done = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < _SECONDS
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    """Return each page of the site, parsed."""
    return {path: _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_page_is_there(site: Path) -> None:
    """Each page of docs/, each notebook and the changelog is a page of the site."""
    docs = (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
    notebooks = (path.relative_to(ROOT) for path in (ROOT / "notebooks").glob("*.ipynb"))
    for page in (*docs, *notebooks, Path("changelog.md")):
        assert (site / page.with_suffix(".html")).is_file(), page


def test_links_lead_somewhere(pages: dict[Path, _Page], site: Path) -> None:
    """Each link within the site leads to a file, and its fragment to an id in that file."""
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        if path.name != "404.html"
        for link in page.leads
        if not re.match(r"[a-z]+:", link) and not _leads(link, path, pages)
    ]
    assert not broken


def _leads(link: str, path: Path, pages: dict[Path, _Page]) -> bool:
    place, _, fragment = link.partition("#")
    target = (path.parent / unquote(place)).resolve() if place else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    # The theme's script creates the ids that begin with `__`.
    is_page = target in pages and fragment and not fragment.startswith("__")
    return not is_page or unquote(fragment) in pages[target].ids


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, _Page], site: Path) -> None:
    """No page or style loads anything from another host."""
    styles = {path: _addresses(path.read_text("utf-8")) for path in site.rglob("*.css")}
    for path, loaded in (styles | {path: page.loads for path, page in pages.items()}).items():
        outside = [address for address in loaded if re.match(r"(?:https?:)?//", address)]
        assert not outside, path
    # The theme's script loads a library from another host for pages with this class only.
    assert not [path for path in pages if 'class="mermaid"' in path.read_text("utf-8")]


def test_pictures_and_styles_are_there(pages: dict[Path, _Page]) -> None:
    """Each file that a page loads from the site exists."""
    for path, page in pages.items():
        if path.name != "404.html":
            own = [address for address in page.loads if not re.match(r"[a-z]+:|#|$", address)]
            missing = [a for a in own if not (path.parent / unquote(a).split("?")[0]).is_file()]
            assert not missing, path


def test_every_public_name_is_in_the_reference(pages: dict[Path, _Page], site: Path) -> None:
    """Each name of `petsync.__all__` is in the reference once, with its module's public parts."""
    api = [page for path, page in pages.items() if path.parent == site / "reference" / "api"]
    places = [name.rpartition(".")[2] for page in api for name in page.ids]
    for name in petsync.__all__:
        parts = getattr(getattr(petsync, name), "__all__", ())
        if name in ("errors", "types"):
            own = [f"petsync.{name}.{part}" for part in parts]
        else:
            own = [f"petsync.{name}"]
        assert [sum(each in page.ids for page in api) for each in own] == [1] * len(own), name
        assert set(parts) <= set(places), name


def test_methods_made_from_asynchronous_ones_are_reported(site: Path) -> None:
    """The reference shows `Store.plan`, which is made from `AsyncStore.plan`, as a method."""
    text = (site / "reference" / "api" / "store.html").read_text("utf-8")
    assert 'id="petsync.Store.plan"' in text
    assert "make_synchronous(" not in text


def test_every_command_is_in_the_reference(pages: dict[Path, _Page], site: Path) -> None:
    """Each command has a section in the command reference."""
    ids = pages[site / "cli.html"].ids
    assert {f"petsync-{name}" for name in cli.list_commands(click.Context(cli))} <= ids


def test_notebooks_show_what_they_showed(site: Path) -> None:
    """Each saved output of a notebook is on its page, pictures included."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        page = (site / "notebooks" / path.with_suffix(".html").name).read_text("utf-8")
        cells = json.loads(path.read_text("utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert page.count('<div class="shown"') == len(outputs) > 0
        assert page.count("data:image/png;base64,") >= sum(map(_is_picture, outputs))
        assert "<!-- output" not in page


def _is_picture(output: dict[str, object]) -> bool:
    data = output.get("data", {})
    return isinstance(data, dict) and "image/png" in data and "text/html" not in data


def test_search_finds_pages(site: Path) -> None:
    """The search index includes guides and the reference."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"tour.html", "cli.html", "reference/api/store.html"} <= places


def test_commands_have_their_options_in_tables(site: Path) -> None:
    """The page of commands has each option of each command in a table, and docs/cli.md's texts
    around them.
    """
    page = (site / "cli.html").read_text("utf-8")
    sections = dict(re.findall(r'<h2 id="([^"]+)">(.*?)(?=<h2 |</article>)', page, re.DOTALL))
    for key, command in _commands(cli, "petsync"):
        rows = " ".join(re.findall(r"<td><code>(.*?)</code></td>", sections[key]))
        own = {name for name in _first_options(command) if name != "--help"}
        if key != "petsync":
            own -= _first_options(cli)
        assert own <= set(re.findall(r"-[\w-]+", rows)), key
    assert "<code>--on-conflict [store|sheet]</code>" in sections["petsync-plan"]
    assert "<!-- commands -->" not in page


def _commands(command: click.Command, key: str) -> Iterator[tuple[str, click.Command]]:
    yield key, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from _commands(inner, f"{key}-{name}")


def _first_options(command: click.Command) -> set[str]:
    options = [each for each in command.params if isinstance(each, click.Option)]
    return {each.opts[0] for each in options if not each.hidden}


def test_the_quick_start_works(site: Path, tmp_path: Path) -> None:
    """The front page installs petsync as the README does, and its commands run in their order, on
    another store than the one that they start.
    """
    front = (ROOT / "docs" / "index.md").read_text("utf-8")
    (code,) = re.findall(r"```sh\n(.*?)```", front, re.DOTALL)
    install, *lines = code.splitlines()
    assert install in (ROOT / "README.md").read_text("utf-8")
    assert len(lines) < 10
    own = [line for line in lines if re.match("petsync (?!serve)", line)]
    assert [line.split()[1] for line in own] == ["export", "check", "plan", "apply", "undo"]
    with Sandbox(seed=ROOT / "sample_data" / "store.json", auth=False) as box:
        env = os.environ | {"PETSYNC_URL": box.url, "PYTHONPATH": str(ROOT)}
        program = f'petsync() {{ "{sys.executable}" -m petsync.cli "$@"; }}\n'
        for line in own[:-1]:
            subprocess.run(["bash", "-c", program + line], cwd=tmp_path, env=env, check=True)


@pytest.mark.browser
def test_the_site_in_a_browser(site: Path) -> None:
    """Every test in tests/browser/site passes in Chromium."""
    run_apart(ROOT / "tests" / "browser" / "site", timeout=900, PETSYNC_SITE=str(site))


def test_a_dead_link_ends_the_build(tmp_path: Path) -> None:
    """A link to a missing page, anchor, notebook or repository file fails the build with a warning
    for each, and valid links cause none.
    """
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    good = "[a](../notebooks/01_tour.ipynb#connect) [b](../CHANGELOG.md) [c](../pyproject.toml)"
    dead = ("none.md", "plan.md#none", "#none", "../notebooks/none.ipynb", "../none.txt")
    planted = " ".join(f"[{number}]({link})" for number, link in enumerate(dead))
    with (docs / "tour.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{good} {planted}\n")
    program = [sys.executable, "-c", _WITH_PLANTED, "mkdocs.yml", str(docs), str(tmp_path / "site")]
    env = os.environ | _QUIET
    done = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if line.startswith("WARNING:")]
    assert done.returncode != 0
    assert all("Doc file 'tour.md'" in line for line in complaints), complaints
    for link in ("none.md", "plan.md#none", "#none", "notebooks/none.md", "files/none.txt"):
        assert [line for line in complaints if f"a link '{link}'" in line], complaints
    assert len(complaints) == len(dead)
