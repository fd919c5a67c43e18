"""A notebook as a page: its text, its code, and its saved outputs."""

from __future__ import annotations

import json
from html import escape
from typing import Any

__all__ = ["SHOWN", "page_of", "shown"]

SHOWN = "<!-- output {} -->"
"""The place of an output on the page. It keeps the output's HTML out of the Markdown."""


def page_of(text: str) -> tuple[str, list[str]]:
    """Return the notebook as Markdown, and its outputs as HTML in the order of their places."""
    parts: list[str] = []
    outputs: list[str] = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            for output in cell["outputs"]:
                parts.append(SHOWN.format(len(outputs)))
                outputs.append(shown(output))
    return "\n\n".join(parts) + "\n", outputs


def shown(output: dict[str, Any]) -> str:
    """Return one output in the richest form without scripts, excluded from the site's search."""
    return f'<div class="shown" tabindex="0" data-search-exclude>{_body(output)}</div>'


def _body(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return "".join(data["text/html"])
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        caption = escape("".join(data.get("text/plain", "")), quote=True)
        return f'<img alt="{caption}" src="data:image/png;base64,{picture}">'
    text = output["text"] if "text" in output else data["text/plain"]
    return f"<pre>{escape(''.join(text))}</pre>"
