"""petsync: keep a pet store's catalogue and a team's spreadsheets in agreement.

import petsync as ps
with ps.demo() as store:
    plan = store.plan("catalogue.xlsx")
    report = store.apply(plan)
"""

from petsync.apply.planfile import load_plan, save_plan
from petsync.apply.report import Report, Result
from petsync.client import auth
from petsync.client.retry import RetryPolicy
from petsync.diff.change import Add, Change, Conflict, Delete, Update
from petsync.diff.guard import Guard, Limit, Verdict
from petsync.diff.plan import Plan
from petsync.diff.snapshot import Coverage, Snapshot
from petsync.errors import (
    ApiError,
    AuthError,
    ConflictError,
    DuplicateError,
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
)
from petsync.model import ApiResponse, Category, Pet, Tag
from petsync.profile import LIVE, STANDARD, ServiceProfile
from petsync.samples import sample_data
from petsync.sheets import read_sheet, write_results, write_sheet
from petsync.store import AsyncStore, Store, connect, demo
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Finding, Sheet

__all__ = [
    "LIVE",
    "STANDARD",
    "Add",
    "ApiError",
    "ApiResponse",
    "AsyncStore",
    "AuthError",
    "Category",
    "Change",
    "Conflict",
    "ConflictError",
    "Coverage",
    "Delete",
    "DuplicateError",
    "Finding",
    "Guard",
    "GuardError",
    "InterruptedRunError",
    "InvalidInputError",
    "Limit",
    "LockedError",
    "NotFoundError",
    "Pet",
    "PetsyncError",
    "Plan",
    "PlanError",
    "RateLimitedError",
    "RedirectError",
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
    "Tag",
    "TransportError",
    "Update",
    "Verdict",
    "auth",
    "connect",
    "demo",
    "frame_from_pets",
    "load_plan",
    "pets_from_frame",
    "read_sheet",
    "sample_data",
    "save_plan",
    "write_results",
    "write_sheet",
]
