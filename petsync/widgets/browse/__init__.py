"""browse: the catalogue looked through, and one pet changed by hand."""

from petsync.widgets.browse.form import BrowseForm, browse

__all__ = ["BrowseForm", "browse"]
