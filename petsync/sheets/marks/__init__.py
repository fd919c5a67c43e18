"""Findings marked at their cells in a copy of a workbook."""
