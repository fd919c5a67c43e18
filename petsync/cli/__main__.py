"""`python -m petsync.cli`: the same as `python -m petsync`."""

from runpy import run_module

run_module("petsync", run_name="__main__")
