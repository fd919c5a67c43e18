"""Loads every module that a night's commands need, once, so that each command starts fast.

The modules load before a clock is changed, because compiled modules look at the real clock's type.
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
    "petsync.config.load",
    "petsync.reconcile.notify",
    "petsync.reconcile.jobs",
    "petsync.reconcile.observe",
    "petsync.report.views.round",
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

# The first address makes apprise import all its services.
import_module("apprise").Apprise().add("json://127.0.0.1:1")
