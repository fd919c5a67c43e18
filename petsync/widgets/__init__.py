"""Forms for notebooks: `login`, `open_sheet`, `review`, `upload_images`, `browse`, and `app`,
which combines them on one page.

Each form collects input, calls the Store, and shows the result. docs/forms.md shows how to do the
same without the form. Without a live kernel, a form is HTML and text.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from petsync._extras import needs_extra

if TYPE_CHECKING:
    from petsync.widgets.app import app
    from petsync.widgets.browse import browse
    from petsync.widgets.login import login
    from petsync.widgets.review import review
    from petsync.widgets.sheet import open_sheet
    from petsync.widgets.upload import upload_images

__all__ = ["app", "browse", "login", "open_sheet", "review", "upload_images"]


_HOME = {
    "app": "petsync.widgets.app",
    "browse": "petsync.widgets.browse",
    "login": "petsync.widgets.login",
    "open_sheet": "petsync.widgets.sheet",
    "review": "petsync.widgets.review",
    "upload_images": "petsync.widgets.upload",
}


class _Forms(ModuleType):
    """The type of this package's module object. Some forms have the same name as their module:
    importing the module must not replace the form.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOME or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Forms


if not TYPE_CHECKING:  # a type checker would otherwise accept any misspelt name

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with needs_extra("forms", f"ps.widgets.{name}"):
            value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
