"""Snapshot and sheet compared into a plan: pure functions and frozen values."""
