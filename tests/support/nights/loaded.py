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
    "petsync.plan.intake",
    "petsync.reconcile.config.load",
    "petsync.reconcile.notify",
    "petsync.reconcile.jobs",
    "petsync.reconcile.observe",
    "petsync.report.round",
    "petsync.report.json",
    "petsync.sheets",
    "petsync.sheets.csv",
    "petsync.sheets.xlsx.write",
    "petsync.sheets.xlsx.edit",
    "petsync.sheets.sync",
    "pyarrow.parquet",
    "python_calamine",
):
    import_module(_name)

# All of its services, which it looks for at the first address.
import_module("apprise").Apprise().add("json://127.0.0.1:1")
