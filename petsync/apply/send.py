"""One change: re-read and compare, journal the intent, send, and find out what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass, field

from petsync.apply.present import Present, UnsentError, mismatch
from petsync.apply.recorder import Recorder
from petsync.apply.target import Again, Target
from petsync.diff.change import Add, Change, Update
from petsync.diff.fields import with_fields
from petsync.diff.report import Cause, Outcome, Result, result_of
from petsync.errors import (
    ApiError,
    AuthError,
    DuplicateError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    ResponseError,
    ServiceError,
    TransportError,
    UnavailableError,
)
from petsync.model import Pet

__all__ = ["Sender", "cause_of"]

_FORM_FIELDS = frozenset({"name", "status"})
_CONFIRMED = "confirmed by reading it back"
_STILL_OTHER = "sent, but in the store it is still otherwise; plan again to see"
_TRIES = 3
"""So often an add whose pet is proved absent is sent: the client repeats no add by itself."""
_WAIT = 0.2
_GATEWAY = frozenset({502, 504})
"""What a gateway answers while the service behind it may still be at work."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Carries out single changes. AuthError, UnavailableError and what the recorder raises stop the
    run. `on_wire` are the changes whose request may be on its way just now; `refused` those that
    the service itself answered with a failure, so that nothing comes of them later; `begun` those
    that an earlier sitting began: what they find done already, they have done. `unverified` are
    those of them that the service took and that were not read back as they were sent; `repeated`
    are changes that were sent more than once.
    """

    target: Target
    recorder: Recorder
    present: Present
    verify: bool = False
    begun: Container[int] = ()
    unverified: Container[int] = ()
    on_wire: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)

    async def send(self, number: int, change: Change) -> Result:
        """What became of the change; never sends anything that the pet's present state forbids.
        Cancelled while its request may be on its way, its number stays in `on_wire`.
        """
        try:
            wanted, now = await self.present.prepare(change)
        except UnsentError as reason:
            return self._unsent(number, change, reason)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            return result_of(number, change, "failed", cause_of(error), error.message)
        await self.recorder.intend(number, change, before=now, after=wanted)
        self.on_wire.add(number)
        result = await self._result(number, change, wanted, now)
        self.on_wire.discard(number)
        return result

    def _unsent(self, number: int, change: Change, reason: UnsentError) -> Result:
        if reason.cause.startswith("already-") and number in self.begun:
            return result_of(number, change, "applied", "confirmed", _CONFIRMED)
        if reason.outcome == "conflict" and number in self.unverified:
            return result_of(number, change, "conflict", "not-as-sent", _STILL_OTHER)
        return result_of(number, change, reason.outcome, reason.cause, reason.message)

    async def find_out(self, number: int, change: Change) -> Result | None:
        """What became of a change whose request may have been sent, by its pet's id; None where the
        pet is as it was before. Nothing is sent.
        """
        try:
            await self.present.prepare(change)
        except UnsentError as reason:
            return self._unsent(number, change, reason)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            return result_of(number, change, "unknown", cause_of(error), error.message)
        return None

    async def verify_again(self, number: int, change: Change, pet_id: int) -> Result | None:
        """The result of a change that was not read back as it was sent, after one more look; None
        where the pet still cannot be read. Nothing is sent.
        """
        try:
            now = await self.target.get(pet_id)
        except (AuthError, UnavailableError):
            raise
        except ApiError:
            return None
        assigned = pet_id if pet_id != change.pet_id else None
        wanted = change.after
        if wanted is not None and isinstance(change, Update) and now is not None:
            wanted = with_fields(now, wanted, change.fields)
        if mismatch(now, wanted) is None:
            return result_of(number, change, "applied", "confirmed", _CONFIRMED, assigned)
        wrong = f"sent, but read back it {mismatch(now, wanted)}; plan again to see"
        # What is still otherwise in a later run is for a person to decide.
        outcome: Outcome = "conflict" if number in self.unverified else "failed"
        return result_of(number, change, outcome, "not-as-sent", wrong, assigned)

    async def _result(
        self, number: int, change: Change, wanted: Pet | None, now: Pet | None
    ) -> Result:
        again = self._again(number, change, wanted, now)
        renewals = _TRIES
        left = _TRIES if isinstance(change, Add) and change.pet_id is not None else 1
        while True:
            left -= 1
            try:
                answer = await self._request(change, wanted, again)
                return await self._after_answer(number, change, wanted, answer)
            except UnsentError as reason:
                return result_of(number, change, reason.outcome, reason.cause, reason.message)
            except _NewerError as newer:
                renewals -= 1
                if not renewals:
                    return result_of(
                        number, change, "failed", cause_of(newer.error), newer.error.message
                    )
                left += 1
                self.repeated.add(number)
                now, wanted = newer.pet, _renewed(change, newer.pet)
                await self.recorder.intend(number, change, before=now, after=wanted)
                again = self._again(number, change, wanted, now)
                continue
            except (AuthError, UnavailableError):
                raise
            except ApiError as error:
                result = await self._after_error(number, change, wanted, now, error)
                is_lost = result.outcome == "failed" and error.may_have_happened
                if not (is_lost and left):
                    return result
                self.recorder.repeats(number, error.message)
            self.repeated.add(number)
            await asyncio.sleep(_WAIT * (_TRIES - left))

    async def _request(self, change: Change, wanted: Pet | None, again: Again) -> Pet | None:
        if wanted is None:
            assert change.pet_id is not None
            await self.target.delete(change.pet_id, again=again)
            return None
        if isinstance(change, Add):
            return await self.target.add(wanted, again=again)
        if _fits_form(change, wanted) and wanted.id is not None:
            name, status = wanted.name, wanted.status
            await self.target.rename(wanted.id, name=name, status=status, again=again)
            return None
        return await self.target.replace(wanted, again=again)

    def _again(self, number: int, change: Change, wanted: Pet | None, before: Pet | None) -> Again:
        """The look at the pet before a request is repeated: meanwhile the first attempt may have
        come through, and others may have changed the pet.
        """
        pet_id = change.pet_id

        async def look(error: ApiError) -> None:
            if pet_id is not None:
                now = await self.target.get(pet_id)
                if mismatch(now, wanted) is None:
                    raise UnsentError("applied", "confirmed", _CONFIRMED)
                if mismatch(now, before) is not None:
                    why = "changed in the store between two attempts"
                    raise UnsentError("conflict", "changed-since", why)
                if isinstance(change, Update) and now is not None and now != before:
                    raise _NewerError(now, error)
            self.recorder.repeats(number, error.message)

        return look

    async def _after_answer(
        self, number: int, change: Change, wanted: Pet | None, answer: Pet | None
    ) -> Result:
        assigned = answer.id if isinstance(change, Add) and answer is not None else None
        if assigned == change.pet_id:
            assigned = None
        elif change.pet_id is not None and assigned is not None:
            why = f"the service gave it the id {assigned} in place of {change.pet_id}"
            return result_of(number, change, "applied", "another-id", why, assigned)
        if self.verify or _is_otherwise(answer, wanted):
            pet_id = change.pet_id if change.pet_id is not None else assigned
            try:
                wrong = await self._wrong(pet_id, wanted)
            except ApiError as error:
                why = f"sent, but reading it back failed: {error.message}"
                return result_of(number, change, "unknown", "unverified", why, assigned)
            if wrong is not None:
                return result_of(number, change, "failed", "not-as-sent", wrong, assigned)
        return result_of(number, change, "applied", "", "", assigned)

    async def _wrong(self, pet_id: int | None, wanted: Pet | None) -> str | None:
        if pet_id is None:
            return "the service did not say which id it gave"
        wrong = mismatch(await self.target.get(pet_id), wanted)
        return None if wrong is None else f"sent, but read back it {wrong}"

    async def _after_error(
        self,
        number: int,
        change: Change,
        wanted: Pet | None,
        before: Pet | None,
        error: ApiError,
    ) -> Result:
        cause = cause_of(error)
        if error.may_have_happened and change.pet_id is not None:
            settled = await self._settled(change.pet_id, wanted, before, error)
            return result_of(number, change, *settled)
        if error.may_have_happened:
            if (error.status or 0) >= 400 and error.status not in _GATEWAY:
                self.refused.add(number)
            return result_of(number, change, "unknown", cause, error.message)
        if isinstance(error, DuplicateError):
            why = "a pet with this id came in between"
            return result_of(number, change, "conflict", "came-meanwhile", why)
        if isinstance(error, NotFoundError):
            if wanted is None:
                gone = UnsentError("skipped", "already-gone", "the pet is gone already")
                return self._unsent(number, change, gone)
            return result_of(number, change, "conflict", "gone", "the pet is gone")
        return result_of(number, change, "failed", cause, error.message)

    async def _settled(
        self, pet_id: int, wanted: Pet | None, before: Pet | None, error: ApiError
    ) -> tuple[Outcome, Cause, str]:
        """No answer came for a pet whose id is known: the store itself says what happened."""
        cause = cause_of(error)
        try:
            now = await self.target.get(pet_id)
        except (AuthError, UnavailableError) as stopping:
            stopping.may_have_happened = True
            raise
        except ApiError:
            return "unknown", cause, error.message
        if mismatch(now, wanted) is None:
            return "applied", "confirmed", _CONFIRMED
        if mismatch(now, before) is None:
            return "failed", cause, error.message
        return "unknown", cause, f"{error.message}; the pet is otherwise now"


class _NewerError(Exception):
    """Before a request is repeated, the pet is as it was in all that is compared, and newer in what
    is not: fields that petsync does not know.
    """

    def __init__(self, pet: Pet, error: ApiError) -> None:
        super().__init__(error.message)
        self.pet, self.error = pet, error


def _renewed(change: Change, now: Pet) -> Pet:
    return now if change.after is None else with_fields(now, change.after, change.fields)


def _is_otherwise(answer: Pet | None, wanted: Pet | None) -> bool:
    """Whether the service's answer to a write shows another pet than was sent. Then only reading
    the pet back tells what is stored: an answer may also leave something out.
    """
    return answer is not None and mismatch(answer, wanted) is not None


def _fits_form(change: Change, wanted: Pet) -> bool:
    """Whether the form operation can do it: it leaves out what is empty, and can clear nothing."""
    if not (_FORM_FIELDS.issuperset(change.fields) and wanted.name):
        return False
    return bool(wanted.status) or "status" not in change.fields


def cause_of(error: ApiError) -> Cause:
    """The stable code of what went wrong with a request."""
    return next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "unexpected")


_CAUSES: tuple[tuple[type[ApiError], Cause], ...] = (
    (AuthError, "no-permission"),
    (RateLimitedError, "too-many"),
    (ServiceError, "service-error"),
    (ResponseError, "bad-answer"),
    (InvalidInputError, "refused"),
    (TransportError, "no-answer"),
    (UnavailableError, "no-answer"),
    (ApiError, "refused"),
)
