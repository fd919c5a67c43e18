"""A page that stands alone: one file, light or dark as the reader likes it, nothing loaded."""

from __future__ import annotations

from collections.abc import Sequence

from petsync.render.inline import script, source_hash, style
from petsync.render.markup import FRAGMENT_STYLE, text

__all__ = ["document", "page"]

_STYLE = "page.css"


def page(fragment: str, title: str) -> str:
    """A whole HTML document of a fragment (HTML) under a title (text).

    It has no scripts, loads nothing, and its content security policy forbids both.
    """
    return document(f"<main>\n<h1>{text(title)}</h1>\n{fragment}\n</main>", title)


def document(
    body: str, title: str, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> str:
    """A whole HTML document of a body (HTML) under a title (text), with styles and scripts of its
    own, by their names in the `assets` folder.

    It loads nothing; its content security policy allows these and a fragment's style by their
    hashes, and nothing else, and forbids scripts to make markup of text.
    """
    own = "\n".join(map(style, (_STYLE, *styles)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_meta(_policy(styles, scripts))}\n'
        f"<title>{text(title)}</title>\n{own}\n</head>\n<body>\n{body}\n"
        f"{''.join(map(script, scripts))}</body>\n</html>\n"
    )


def _meta(policy: str) -> str:
    return f"""<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">"""


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    known = dict.fromkeys((_STYLE, FRAGMENT_STYLE, *styles))
    rules = [
        "default-src 'none'",
        f"style-src {' '.join(map(source_hash, known))}",
        *([f"script-src {' '.join(map(source_hash, scripts))}"] if scripts else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)
