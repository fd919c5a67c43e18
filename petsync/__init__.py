"""petsync: keep a pet store's catalogue and a team's spreadsheets in agreement.

import petsync as ps
with ps.demo() as store:
    plan = store.plan("catalogue.xlsx")
    report = store.apply(plan)
"""

# Not from typing: a command can be interrupted quietly only once petsync itself is imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from petsync import reconcile, widgets
    from petsync.apply.planfile import load_plan, save_plan
    from petsync.client import auth
    from petsync.client.loaders import Lookups
    from petsync.client.retry import RetryPolicy
    from petsync.errors import (
        ApiError,
        AuthError,
        ConfigurationError,
        ConflictError,
        DuplicateError,
        FindingsError,
        GuardError,
        InterruptedRunError,
        InvalidInputError,
        LockedError,
        NotFoundError,
        PetsyncError,
        PlanError,
        RateLimitedError,
        RedirectError,
        ResponseError,
        ServiceError,
        SettingsError,
        SheetError,
        StalePlanError,
        TransportError,
        UnavailableError,
    )
    from petsync.images.upload import Cancelling
    from petsync.models import Account, ApiResponse, Category, Pet, Tag
    from petsync.plan.change import (
        Add,
        Change,
        Clash,
        Conflict,
        Coverage,
        Delete,
        Snapshot,
        Unanswered,
        Update,
    )
    from petsync.plan.explain import Explanation
    from petsync.plan.guard import Guard, Limit, Refusal, Verdict
    from petsync.plan.plan import Plan, Summary
    from petsync.plan.rehearsal import Rehearsal
    from petsync.plan.report import Report, Result
    from petsync.plan.uploads import (
        FileProgress,
        Picture,
        PictureProblem,
        Pictures,
        Uploaded,
        UploadedFile,
    )
    from petsync.profile import LIVE, STANDARD, ServiceProfile
    from petsync.rehearsal import rehearse
    from petsync.samples import sample_data
    from petsync.sheets import (
        Annotated,
        annotate_sheet,
        read_sheet,
        write_back,
        write_corrected,
        write_results,
        write_sheet,
    )
    from petsync.store import Store, connect, demo
    from petsync.store.async_store import AsyncStore
    from petsync.table.frame import frame_from_pets, pets_from_frame
    from petsync.table.sheet import Correction, Finding, Sheet, Suggestion

__version__ = "0.2.0"

__all__ = [
    "LIVE",
    "STANDARD",
    "Account",
    "Add",
    "Annotated",
    "ApiError",
    "ApiResponse",
    "AsyncStore",
    "AuthError",
    "Cancelling",
    "Category",
    "Change",
    "Clash",
    "ConfigurationError",
    "Conflict",
    "ConflictError",
    "Correction",
    "Coverage",
    "Delete",
    "DuplicateError",
    "Explanation",
    "FileProgress",
    "Finding",
    "FindingsError",
    "Guard",
    "GuardError",
    "InterruptedRunError",
    "InvalidInputError",
    "Limit",
    "LockedError",
    "Lookups",
    "NotFoundError",
    "Pet",
    "PetsyncError",
    "Picture",
    "PictureProblem",
    "Pictures",
    "Plan",
    "PlanError",
    "RateLimitedError",
    "RedirectError",
    "Refusal",
    "Rehearsal",
    "Report",
    "ResponseError",
    "Result",
    "RetryPolicy",
    "ServiceError",
    "ServiceProfile",
    "SettingsError",
    "Sheet",
    "SheetError",
    "Snapshot",
    "StalePlanError",
    "Store",
    "Suggestion",
    "Summary",
    "Tag",
    "TransportError",
    "Unanswered",
    "UnavailableError",
    "Update",
    "Uploaded",
    "UploadedFile",
    "Verdict",
    "annotate_sheet",
    "auth",
    "connect",
    "demo",
    "frame_from_pets",
    "load_plan",
    "pets_from_frame",
    "read_sheet",
    "reconcile",
    "rehearse",
    "sample_data",
    "save_plan",
    "widgets",
    "write_back",
    "write_corrected",
    "write_results",
    "write_sheet",
]

# Each name's module, imported when the name is first used: `petsync --help` and a script that
# only catches errors do not wait for pandas. tests/test_public_names.py holds the three lists
# together.
_HOMES = {
    "petsync.apply.planfile": (
        "load_plan",
        "save_plan",
    ),
    "petsync.client.loaders": ("Lookups",),
    "petsync.client.retry": ("RetryPolicy",),
    "petsync.errors": (
        "ApiError",
        "AuthError",
        "ConfigurationError",
        "ConflictError",
        "DuplicateError",
        "FindingsError",
        "GuardError",
        "InterruptedRunError",
        "InvalidInputError",
        "LockedError",
        "NotFoundError",
        "PetsyncError",
        "PlanError",
        "RateLimitedError",
        "RedirectError",
        "ResponseError",
        "ServiceError",
        "SettingsError",
        "SheetError",
        "StalePlanError",
        "TransportError",
        "UnavailableError",
    ),
    "petsync.images.upload": ("Cancelling",),
    "petsync.models": (
        "Account",
        "ApiResponse",
        "Category",
        "Pet",
        "Tag",
    ),
    "petsync.plan.change": (
        "Add",
        "Change",
        "Clash",
        "Conflict",
        "Coverage",
        "Delete",
        "Snapshot",
        "Unanswered",
        "Update",
    ),
    "petsync.plan.explain": ("Explanation",),
    "petsync.plan.guard": (
        "Guard",
        "Limit",
        "Refusal",
        "Verdict",
    ),
    "petsync.plan.plan": (
        "Plan",
        "Summary",
    ),
    "petsync.plan.rehearsal": ("Rehearsal",),
    "petsync.plan.report": (
        "Report",
        "Result",
    ),
    "petsync.plan.uploads": (
        "FileProgress",
        "Picture",
        "PictureProblem",
        "Pictures",
        "Uploaded",
        "UploadedFile",
    ),
    "petsync.profile": (
        "LIVE",
        "STANDARD",
        "ServiceProfile",
    ),
    "petsync.rehearsal": ("rehearse",),
    "petsync.samples": ("sample_data",),
    "petsync.sheets": (
        "Annotated",
        "annotate_sheet",
        "read_sheet",
        "write_back",
        "write_corrected",
        "write_results",
        "write_sheet",
    ),
    "petsync.store": (
        "AsyncStore",
        "Store",
        "connect",
        "demo",
    ),
    "petsync.table.frame": (
        "frame_from_pets",
        "pets_from_frame",
    ),
    "petsync.table.sheet": (
        "Correction",
        "Finding",
        "Sheet",
        "Suggestion",
    ),
}
_MODULES = {
    "auth": "petsync.client.auth",
    "reconcile": "petsync.reconcile",
    "widgets": "petsync.widgets",
}
_HOME = _MODULES | {name: home for home, names in _HOMES.items() for name in names}
_LIGHT = frozenset({"errors", "models", "profile", "samples", "client"})


if not TYPE_CHECKING:  # a type checker would otherwise take any misspelt name

    def __getattr__(name):
        from importlib import import_module

        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if home.split(".")[1] not in _LIGHT:
            # Plans, reports, sheets and snapshots show themselves through it.
            import_module("petsync.report")
        module = import_module(home)
        value = module if name in _MODULES else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
