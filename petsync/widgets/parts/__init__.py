"""Parts that forms are put together from, where ipywidgets has none that a screen reader and a
keyboard can use: a table, a place to drop files, a notice that is read aloud, progress.

Their JavaScript is in `assets`, comes through the kernel, and loads nothing.
"""
