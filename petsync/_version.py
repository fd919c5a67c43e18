"""The version of petsync."""

__version__ = "0.2.0"
