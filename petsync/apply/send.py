"""One change: re-read and compare, journal the intent, send, and find out what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from petsync.apply.journal import Intent, Journal
from petsync.apply.target import Again, Target
from petsync.diff.change import Add, Change, Delete, Update
from petsync.diff.fields import differing, same, with_fields
from petsync.diff.report import Outcome, Result
from petsync.errors import (
    ApiError,
    AuthError,
    DuplicateError,
    NotFoundError,
)
from petsync.model import Pet
from petsync.table.columns import COLUMNS

__all__ = ["Sender", "result_of"]

_FORM_FIELDS = frozenset({"name", "status"})


class _Unsent(Exception):  # noqa: N818
    """The change is not sent; says what becomes of it instead."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


@dataclass(frozen=True, slots=True)
class Sender:
    """Carries out single changes. AuthError and what the journal raises stop the run."""

    target: Target
    journal: Journal
    verify: bool = False

    async def send(self, number: int, change: Change) -> Result:
        """What became of the change; never sends anything that the pet's present state forbids."""
        try:
            wanted, now = await self._prepare(change)
        except _Unsent as reason:
            return result_of(number, change, reason.outcome, reason.message)
        except AuthError:
            raise
        except ApiError as error:
            return result_of(number, change, "failed", error.message)
        await self.journal.write(Intent(number=number, before=now))
        try:
            answer = await self._request(change, wanted, self._again(change, wanted, now))
        except _Unsent as reason:
            return result_of(number, change, reason.outcome, reason.message)
        except AuthError:
            raise
        except ApiError as error:
            return await self._after_error(number, change, wanted, error)
        return await self._after_answer(number, change, wanted, answer)

    async def _prepare(self, change: Change) -> tuple[Pet | None, Pet | None]:
        """The pet as it shall be and as it is; raises _Unsent where nothing is to be sent."""
        if change.pet_id is None:
            return change.after, None
        now = await self.target.get(change.pet_id)
        if isinstance(change, Add):
            return _addable(change, now), None
        if isinstance(change, Update):
            return _updated(change, now), now
        _check_deletable(change, now)
        return None, now

    async def _request(self, change: Change, wanted: Pet | None, again: Again | None) -> Pet | None:
        if wanted is None:
            assert change.pet_id is not None
            await self.target.delete(change.pet_id, again=again)
            return None
        if isinstance(change, Add):
            return await self.target.add(wanted, again=again)
        if _FORM_FIELDS.issuperset(change.fields) and wanted.id is not None and wanted.name:
            name, status = wanted.name, wanted.status
            await self.target.rename(wanted.id, name=name, status=status, again=again)
            return None
        return await self.target.replace(wanted, again=again)

    def _again(self, change: Change, wanted: Pet | None, before: Pet | None) -> Again | None:
        """The look at the pet before a request is repeated: meanwhile the first attempt may have
        come through, and others may have changed the pet.
        """
        pet_id = change.pet_id
        if pet_id is None:
            return None

        async def look() -> None:
            now = await self.target.get(pet_id)
            if _state(now, wanted) is None:
                raise _Unsent("applied", "confirmed by reading it back")
            if _state(now, before) is not None:
                raise _Unsent("conflict", "changed in the store between two attempts")

        return look

    async def _after_answer(
        self, number: int, change: Change, wanted: Pet | None, answer: Pet | None
    ) -> Result:
        assigned = answer.id if isinstance(change, Add) and answer is not None else None
        if assigned == change.pet_id:
            assigned = None
        elif change.pet_id is not None and assigned is not None:
            why = f"the service gave it the id {assigned} in place of {change.pet_id}"
            return result_of(number, change, "applied", why, assigned)
        if self.verify:
            pet_id = change.pet_id if change.pet_id is not None else assigned
            if (wrong := await self._wrong(pet_id, wanted)) is not None:
                return result_of(number, change, "failed", wrong, assigned)
        return result_of(number, change, "applied", "", assigned)

    async def _wrong(self, pet_id: int | None, wanted: Pet | None) -> str | None:
        if pet_id is None:
            return "the service did not say which id it gave"
        try:
            state = _state(await self.target.get(pet_id), wanted)
        except ApiError as error:
            return f"sent, but reading it back failed: {error.message}"
        return None if state is None else f"sent, but read back it {state}"

    async def _after_error(
        self, number: int, change: Change, wanted: Pet | None, error: ApiError
    ) -> Result:
        if error.may_have_happened and change.pet_id is not None:
            return await self._settle(number, change, change.pet_id, wanted, error)
        if error.may_have_happened:
            return result_of(number, change, "unknown", error.message)
        if isinstance(error, DuplicateError):
            return result_of(number, change, "conflict", "a pet with this id came in between")
        if isinstance(error, NotFoundError):
            gone: Outcome = "skipped" if wanted is None else "conflict"
            return result_of(number, change, gone, "the pet is gone")
        return result_of(number, change, "failed", error.message)

    async def _settle(
        self, number: int, change: Change, pet_id: int, wanted: Pet | None, error: ApiError
    ) -> Result:
        """No answer came for a pet whose id is known: the store itself says what happened."""
        try:
            now = await self.target.get(pet_id)
        except ApiError:
            return result_of(number, change, "unknown", error.message)
        if _state(now, wanted) is None:
            return result_of(number, change, "applied", "confirmed by reading it back")
        if _state(now, change.before) is None:
            return result_of(number, change, "failed", error.message)
        return result_of(number, change, "unknown", f"{error.message}; the pet is otherwise now")


def result_of(
    number: int, change: Change, outcome: Outcome, message: str, assigned_id: int | None = None
) -> Result:
    """The result of a change."""
    return Result(
        number=number,
        kind=change.kind,
        row=change.row,
        source=change.source,
        pet_id=change.pet_id,
        outcome=outcome,
        message=message,
        assigned_id=assigned_id,
        fields=change.fields,
    )


def _addable(change: Add, now: Pet | None) -> Pet:
    if now is None:
        return change.after
    if differing(now, change.after):
        raise _Unsent("conflict", "the store has another pet with this id now")
    raise _Unsent("skipped", "the pet is there already, just so")


def _updated(change: Update, now: Pet | None) -> Pet:
    """The present pet with the planned fields; others' changes to other fields stay."""
    if now is None:
        raise _Unsent("conflict", "the pet is gone")
    moved = [field for field in change.fields if not same(now, change.before, field)]
    if moved and all(same(now, change.after, field) for field in change.fields):
        raise _Unsent("skipped", "the pet is so already")
    if moved:
        raise _Unsent("conflict", f"changed in the store since the plan: {', '.join(moved)}")
    return with_fields(now, change.after, change.fields)


def _check_deletable(change: Delete, now: Pet | None) -> None:
    if now is None:
        raise _Unsent("skipped", "the pet is gone already")
    if moved := differing(now, change.before):
        raise _Unsent("conflict", f"changed in the store since the plan: {', '.join(moved)}")


def _state(now: Pet | None, wanted: Pet | None) -> str | None:
    """How the store's pet is not what was wanted; None where it is."""
    if now is None or wanted is None:
        return None if now is wanted else ("is gone" if now is None else "is still there")
    wrong = [column for column in COLUMNS if column != "id" and not same(now, wanted, column)]
    return f"differs in {', '.join(wrong)}" if wrong else None
