"""`python -m petsync.cli`: the same as `python -m petsync`."""

from __future__ import annotations

from runpy import run_module

run_module("petsync", run_name="__main__")
