"""The sign-in form: choose a way, fill in, see who one is and what one may do."""

from __future__ import annotations

from petsync.store import Store
from petsync.widgets.login.form import LoginForm

__all__ = ["LoginForm", "login"]


def login(store: Store) -> LoginForm:
    """A form to sign in to the store's service, and out. `store.who()`, `store.sign_in(…)`,
    `store.begin_sign_in(…)` and `store.sign_out()` do the same.
    """
    return LoginForm(store)
