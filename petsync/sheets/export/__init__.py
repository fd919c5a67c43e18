"""A table laid out as a file: the workbook for people, its parts and its exact texts."""
