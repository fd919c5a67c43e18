"""Workbooks as they stand in their files: ZIP parts and their XML."""
