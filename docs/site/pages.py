"""The hooks of mkdocs for the site: pages that are made from other files, and links that are
written for the repository.

A page in docs/ links to README.md, to a notebook or to any other file by its path in the
repository, so that the same link works there. On the site such a link leads to the page made from
that file, or else to a copy of the file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import commands
import notebook
import reference
from words import WORDS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = [
    "on_config",
    "on_files",
    "on_page_content",
    "on_page_markdown",
    "on_post_page",
    "on_post_template",
    "slug",
]

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_OTHER = re.compile(r"^(?:[a-z]+:|#|/)")
_PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "notebooks/README.md": "notebooks/index.md",
    "sample_data/README.md": "sample-data.md",
}
_COPIES = "files/"
_RANKS = {
    "changelog.md": 0.2,
    "architecture.md": 0.3,
    "contributing.md": 0.3,
    "dependencies.md": 0.3,
    "reference/": 0.4,
    "notebooks/": 0.6,
}
"""The weight in a search of pages that seldom answer a user's question; 1 for all others."""
_outputs: dict[str, list[str]] = {}


def slug(text: str, separator: str) -> str:
    """Return a heading's anchor, the same as in a view of the repository."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the same anchors as in a view of the repository."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from other files: reference, notebooks, changelog, sample data."""
    from mkdocs.structure.files import File

    for uri, text in _build_pages():
        files.append(File.generated(config, uri, content=text))
    return files


def _build_pages() -> Iterator[tuple[str, str]]:
    yield from reference.pages()
    for path, uri in _PLACES.items():
        if path != "README.md":
            yield uri, (ROOT / path).read_text("utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        uri = f"notebooks/{path.stem}.md"
        text, _outputs[uri] = notebook.page_of(path.read_text("utf-8"))
        yield uri, text


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with each link out of docs/ replaced by its address on the site, and the
    options of commands in tables. Give the search the page's weight and its readers' words.
    """
    uri = page.file.src_uri
    rank = next((rank for start, rank in _RANKS.items() if uri.startswith(start)), 1)
    page.meta |= {"search": {"boost": rank}, "tags": WORDS.get(uri, "").split()}

    def led(found: re.Match[str]) -> str:
        link = _led(found[2], uri, lambda path: _copied(path, config, files))
        return f"{found[1]}{link}{found[3]}"

    if uri == "cli.md":
        markdown = commands.with_tables(markdown)
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Return the page of a notebook with its outputs in their places."""
    for number, output in enumerate(_outputs.get(page.file.src_uri, ())):
        html = html.replace(notebook.SHOWN.format(number), output)
    return html


def on_post_page(output: str, **_: object) -> str:
    """Return the page with a label for the search, which the theme omits."""
    return output.replace('class="md-search"', 'class="md-search" aria-label="Search"', 1)


def on_post_template(output_content: str, **_: object) -> str:
    """Return the page for missing addresses with this label, too."""
    return on_post_page(output_content)


def _led(link: str, uri: str, copied: Callable[[str], str]) -> str:
    if _OTHER.match(link):
        return link
    place, mark, fragment = link.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(_source(uri)), place))
    if not place or (path.startswith("docs/") and _source(uri).startswith("docs/")):
        return link
    there = _uri(path) or copied(path)
    return posixpath.relpath(there, posixpath.dirname(uri) or ".") + mark + fragment


def _source(uri: str) -> str:
    """Return the file in the repository from which a page of the site is made."""
    for path, place in _PLACES.items():
        if place == uri and path != "README.md":
            return path
    is_notebook = uri in _outputs
    return uri.removesuffix(".md") + ".ipynb" if is_notebook else f"docs/{uri}"


def _uri(path: str) -> str | None:
    """Return the page of the site that is made from a file in the repository."""
    if path in _PLACES:
        return _PLACES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    is_notebook = path.startswith("notebooks/") and path.endswith(".ipynb")
    return path.removesuffix(".ipynb") + ".md" if is_notebook else None


def _copied(path: str, config: MkDocsConfig, files: Files) -> str:
    """Return the address of a file's copy; if the file is missing, mkdocs reports the address."""
    from mkdocs.structure.files import File

    uri = _COPIES + path
    if (ROOT / path).is_file() and files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return uri
