"""Everything that a night's commands load, loaded once: so that each of them costs little.

It has to be there before a clock is changed, too: compiled modules look at the real clock's type.
"""

from __future__ import annotations

from importlib import import_module

for _name in (
    "apprise",
    "filelock",
    "nights.clock",
    "openpyxl",
    "pandas",
    "petsync.cli.console",
    "petsync.cli.reconcile",
    "petsync.diff.inbound",
    "petsync.reconcile.config",
    "petsync.reconcile.notify",
    "petsync.reconcile.passing",
    "petsync.reconcile.watch",
    "petsync.render.round_html",
    "petsync.render.round_json",
    "petsync.sheets",
    "petsync.sheets.delimited.script",
    "petsync.sheets.export.workbook",
    "petsync.sheets.ooxml.amend",
    "petsync.sheets.synced",
    "pyarrow.parquet",
    "python_calamine",
):
    import_module(_name)

# All of its services, which it looks for at the first address.
import_module("apprise").Apprise().add("json://127.0.0.1:1")
