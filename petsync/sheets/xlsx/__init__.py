"""Workbooks as files: ZIP parts and their XML."""
