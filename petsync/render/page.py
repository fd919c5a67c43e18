"""A page that stands alone: one file, light or dark as the reader likes it, nothing loaded."""

from __future__ import annotations

from petsync.render.markup import text

__all__ = ["page"]

_HEAD = """<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">"""

_STYLE = """<style>
:root {
  color-scheme: light dark;
  --page: #ffffff;
  --jp-content-font-color1: #1c2126;
  --jp-border-color1: #d5dae0;
  --jp-success-color1: #1f7a37;
  --jp-warn-color1: #b36a00;
  --jp-error-color1: #bd2c22;
  --jp-info-color1: #15699b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181c;
    --jp-content-font-color1: #e3e7eb;
    --jp-border-color1: #3a424b;
    --jp-success-color1: #4cc16b;
    --jp-warn-color1: #e8a33d;
    --jp-error-color1: #f2786d;
    --jp-info-color1: #5fb4e5;
  }
}
body { margin: 0; background: var(--page); color: var(--jp-content-font-color1);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.35rem; margin: 0 0 .5rem; }
@media print { main { padding: 0; } details > summary { break-after: avoid; } }
</style>"""


def page(fragment: str, title: str) -> str:
    """A whole HTML document of a fragment (HTML) under a title (text).

    It has no scripts, loads nothing, and its content security policy forbids both.
    """
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_HEAD}\n<title>{text(title)}</title>\n'
        f"{_STYLE}\n</head>\n<body>\n<main>\n<h1>{text(title)}</h1>\n{fragment}\n</main>\n"
        "</body>\n</html>\n"
    )
