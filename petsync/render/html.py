"""Values as HTML: fragments for a notebook's cell, or for a `page`.

Colours are the theme's; without them symbols, words, `<del>` and `<ins>` say the same. A part
with more than 10 rows is folded, with more than 1,000 where everything is shown (`limit=None`).
"""

from __future__ import annotations

from petsync.render.plan_html import plan_html
from petsync.render.plan_page import plan_page
from petsync.render.report_html import report_html
from petsync.render.sheet_html import findings_html, sheet_html, snapshot_html

__all__ = ["findings_html", "plan_html", "plan_page", "report_html", "sheet_html", "snapshot_html"]
