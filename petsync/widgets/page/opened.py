"""The kernel's side of the page: the forms, for the store that the command's options name."""

from __future__ import annotations

import os

from petsync.widgets.app import AppForm, found
from petsync.widgets.page.given import taken

__all__ = ["opened"]


def opened() -> AppForm:
    """The page, in the folder where petsync was started."""
    given = taken()
    os.chdir(given.folder)
    os.umask(given.umask)
    page = found(given.options)
    page.level = page.heading.level = 1
    return page
