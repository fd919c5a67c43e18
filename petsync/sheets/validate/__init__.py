"""Validate the cells of a sheet: read their values, and find their problems."""
