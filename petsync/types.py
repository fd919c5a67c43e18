"""The types of the values that petsync returns, for annotations and `isinstance`."""

from petsync.client.loaders import Lookups
from petsync.images.upload import UploadCanceller
from petsync.models import Account, ApiResponse, TagName
from petsync.plan.change import (
    Add,
    Change,
    Clash,
    Conflict,
    Coverage,
    Delete,
    FailedLookup,
    Snapshot,
    Update,
)
from petsync.plan.differences import Differences, RepeatedRow, RowDifference
from petsync.plan.explain import Explanation
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.plan import Plan, Summary
from petsync.plan.rehearsal import Rehearsal
from petsync.plan.report import Report, Result
from petsync.plan.uploads import (
    FileProgress,
    Picture,
    PictureProblem,
    Pictures,
    UploadedFile,
    UploadReport,
)
from petsync.sheets import AnnotatedCopy
from petsync.sheets.failed import FailedRows
from petsync.store.async_store import AsyncStore
from petsync.table.rules import RuleResult, SheetRule
from petsync.table.sheet import Correction, Finding, Sheet, Suggestion

__all__ = [
    "Account",
    "Add",
    "AnnotatedCopy",
    "ApiResponse",
    "AsyncStore",
    "Change",
    "Clash",
    "Conflict",
    "Correction",
    "Coverage",
    "Delete",
    "Differences",
    "Explanation",
    "FailedLookup",
    "FailedRows",
    "FileProgress",
    "Finding",
    "Lookups",
    "Picture",
    "PictureProblem",
    "Pictures",
    "Plan",
    "Refusal",
    "Rehearsal",
    "RepeatedRow",
    "Report",
    "Result",
    "RowDifference",
    "RuleResult",
    "Sheet",
    "SheetRule",
    "Snapshot",
    "Suggestion",
    "Summary",
    "TagName",
    "Update",
    "UploadCanceller",
    "UploadReport",
    "UploadedFile",
    "Verdict",
]


def __dir__() -> list[str]:
    return sorted(__all__)
