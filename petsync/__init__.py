"""petsync: keep a pet store's catalogue and a team's spreadsheets in agreement.

import petsync as ps
with ps.demo() as store:
    plan = store.plan("catalogue.xlsx")
    report = store.apply(plan)
"""

# Not imported from typing, which would take longer: an interrupt is handled quietly only after
# petsync itself is imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from petsync import errors, reconcile, types, widgets
    from petsync._version import __version__ as __version__
    from petsync.apply.planfile import load_plan, save_plan
    from petsync.client import auth
    from petsync.client.retry import RetryPolicy
    from petsync.differences import diff
    from petsync.models import Category, Pet, Tag
    from petsync.plan.guard import Guard, Limit
    from petsync.profile import LIVE, STANDARD, ServiceProfile
    from petsync.rehearsal import rehearse
    from petsync.samples import sample_data
    from petsync.scale.check import check_sheet
    from petsync.sheets import (
        annotate_sheet,
        read_sheet,
        write_back,
        write_corrected,
        write_results,
        write_sheet,
    )
    from petsync.sheets.records import pets_from_frame
    from petsync.store import Store, connect, demo
    from petsync.table.frame import frame_from_pets


__all__ = [
    "LIVE",
    "STANDARD",
    "Category",
    "Guard",
    "Limit",
    "Pet",
    "RetryPolicy",
    "ServiceProfile",
    "Store",
    "Tag",
    "annotate_sheet",
    "auth",
    "check_sheet",
    "connect",
    "demo",
    "diff",
    "errors",
    "frame_from_pets",
    "load_plan",
    "pets_from_frame",
    "read_sheet",
    "reconcile",
    "rehearse",
    "sample_data",
    "save_plan",
    "types",
    "widgets",
    "write_back",
    "write_corrected",
    "write_results",
    "write_sheet",
]

# Each name's module, imported when the name is first used: `petsync --help` and a script that
# only catches errors do not wait for pandas. tests/test_public_names.py compares the three lists.
_HOMES = {
    "petsync.apply.planfile": (
        "load_plan",
        "save_plan",
    ),
    "petsync.client.retry": ("RetryPolicy",),
    "petsync.models": (
        "Category",
        "Pet",
        "Tag",
    ),
    "petsync.plan.guard": (
        "Guard",
        "Limit",
    ),
    "petsync.profile": (
        "LIVE",
        "STANDARD",
        "ServiceProfile",
    ),
    "petsync.rehearsal": ("rehearse",),
    "petsync.samples": ("sample_data",),
    "petsync.sheets": (
        "annotate_sheet",
        "read_sheet",
        "write_back",
        "write_corrected",
        "write_results",
        "write_sheet",
    ),
    "petsync.store": (
        "Store",
        "connect",
        "demo",
    ),
    "petsync.differences": ("diff",),
    "petsync.scale.check": ("check_sheet",),
    "petsync.sheets.records": ("pets_from_frame",),
    "petsync.table.frame": ("frame_from_pets",),
}
_MODULES = {
    "auth": "petsync.client.auth",
    "errors": "petsync.errors",
    "reconcile": "petsync.reconcile",
    "types": "petsync.types",
    "widgets": "petsync.widgets",
}
_HOME = {
    "__version__": "petsync._version",
    **_MODULES,
    **{name: home for home, names in _HOMES.items() for name in names},
}


if not TYPE_CHECKING:  # a type checker would otherwise accept any misspelt name

    def __getattr__(name):
        from importlib import import_module

        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(home)
        value = module if name in _MODULES else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__])
