"""Upload images: several pets at a time, each pet's images in order, recorded in a journal."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import msgspec

from petsync._sync import run_to_end
from petsync.apply.engine import StoppedError, Stopper, Target, cause_of
from petsync.apply.journal import Journal
from petsync.apply.options import UploadOptions
from petsync.errors import (
    ApiError,
    AuthError,
    NotFoundError,
    PetsyncError,
    PlanError,
    UnavailableError,
)
from petsync.images.inspect import DECODE_CONCURRENCY, UnusableImageError, read_prepared
from petsync.models import Pet
from petsync.plan.report import Cause, Entry, Outcome, PastRun, collect_undone_pets, has_remaining
from petsync.plan.uploads import (
    Attempt,
    FileProgress,
    Picture,
    Pictures,
    UploadedFile,
    UploadProgress,
    UploadReport,
    Uploads,
    added_urls,
    result_of,
    result_of_problem,
)

__all__ = [
    "HOLDING_CAUSES",
    "RERUN_CURE",
    "RERUN_TO_CHECK_CURE",
    "ImageRecorder",
    "PictureSender",
    "UnsentError",
    "UploadCanceller",
    "rebuild_upload_report",
    "repeated_uploads",
    "result_without_upload",
    "run",
    "uploads_to",
    "without_run",
]


# UploadCanceller: cancels single pictures of a running upload.


class UploadCanceller:
    """Cancels single pictures of one upload. A picture's number is its index in `Pictures.items`.
    Can be used from any thread.

    A picture that is still waiting is not sent. A request in flight is cancelled; the result is
    then unknown, unless the pet's photos show that the service got the picture.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: set[int] = set()
        self._callback: Callable[[int], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def cancel(self, number: int) -> None:
        """Cancel this picture. Returns at once."""
        with self._lock:
            self._numbers.add(number)
            if self._loop is not None and not self._loop.is_closed() and self._callback is not None:
                self._loop.call_soon_threadsafe(self._callback, number)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def listen(self, callback: Callable[[int], object]) -> None:
        """Call `callback` on the running loop with the number of each picture that is cancelled
        from now on.
        """
        with self._lock:
            self._loop, self._callback = asyncio.get_running_loop(), callback


# One picture: read the pet, record the intent, send the picture, read the pet again, and record the
# result.


T = TypeVar("T")
RERUN_CURE = "Run the same command again: it uploads only the remaining pictures."
RERUN_TO_CHECK_CURE = (
    "Run the same command again to upload the others and to check the result of this upload."
)
_RERUN_UNSENT_CURE = "Run the same command again: it uploads the picture, or says why it cannot."
_PET_GONE = "the pet is no longer in the store"
_CANCELLED = "cancelled before it was sent"
_LOOK_CURE = (
    "Check the pet's photos in the store; --again, in Python again=True, uploads the picture "
    "once more."
)
HOLDING_CAUSES: frozenset[Cause] = frozenset(
    ("no-answer", "bad-answer", "service-error", "too-many", "cut-off", "unexpected")
)
"""Causes of a failed upload after which a later attempt may succeed, so the pet's next pictures are
held back.
"""


class ImageRecorder(Protocol):
    """The part of a journal's interface that an upload run uses."""

    async def record_image_intent(self, entry: Entry) -> None:
        """Record that this upload is about to be sent; return when the record is on disk."""

    def record_image_result(self, entry: Entry) -> None:
        """Record the result of an upload."""

    def record_retry(self, number: int, why: str) -> None:
        """Record that the request is sent again, and why the last attempt failed."""

    async def flush(self) -> None:
        """Return when everything recorded so far is on disk."""


def result_without_upload(picture: Picture) -> UploadedFile:
    """Return the result of a picture that is not uploaded in this run."""
    if picture.decision == "unknown":
        why = (
            f"run {picture.run} sent it and got no response, and the service does not show whether "
            "the upload succeeded"
        )
        return result_of(picture, "unknown", "no-answer", why, cure=_LOOK_CURE)
    if picture.decision == "duplicate":
        return result_of(picture, "unchanged", "already-so", "the same picture was selected twice")
    return result_of(picture, "unchanged", "already-so", f"uploaded before, in run {picture.run}")


class UnsentError(Exception):
    """The picture is not sent; `result` is reported instead."""

    def __init__(self, result: UploadedFile) -> None:
        super().__init__(result.message)
        self.result = result


@dataclass(slots=True, kw_only=True)
class PictureSender:
    """Uploads single pictures of `pictures.items`, by their numbers.

    AuthError, UnavailableError and the errors of the recorder stop the run; StoppedError shows that
    it is already stopped. Pictures that `canceller` contains are not sent.
    """

    pictures: Pictures
    target: Target
    recorder: ImageRecorder
    earlier: Uploads
    """The uploads of earlier runs, and the photos that this run has added so far."""
    adds: bool
    """Whether the service adds a photo URL to a pet for each upload."""
    settle: float
    stopper: Stopper
    in_flight: set[int]
    """The numbers of the pictures whose request may be in flight."""
    on_sent: Callable[[int, int], None]
    on_retry: Callable[[int, str], None]
    """Called with the number of a picture that is sent again, and the reason."""
    canceller: UploadCanceller
    items: tuple[Picture, ...] = ()
    started_at: float = field(default_factory=time.monotonic)
    _decoding: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(DECODE_CONCURRENCY)
    )
    _cancel_tasks: dict[int, Callable[[], object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = self.pictures.items

    def cancel(self, number: int) -> None:
        """Cancel the task that works on this picture, if there is one."""
        self._cancel_tasks.get(number, lambda: None)()

    async def send(self, number: int) -> UploadedFile:
        """Send the picture, unless an earlier upload of it has succeeded or the run is stopped, and
        return its result. Raises UnsentError if it is not sent and the journal gets no entry.
        """
        picture = self.items[number]
        earlier_result, before, content = await self._run_cancellable(
            number, self._prepare(number, picture)
        )
        if earlier_result is not None:
            return earlier_result
        entry = self._new_entry(number, before)
        # From here on nothing cancels this task: an intent without a result would leave it unknown
        # whether the upload succeeded.
        self.in_flight.add(number)
        await self._record_intent(entry)
        result = (
            self._record_unsent(entry) if self.stopper.reason or number in self.canceller else None
        )
        result = result or await self._upload(number, entry, content)
        self.in_flight.discard(number)
        return result

    async def _record_intent(self, entry: Entry) -> None:
        try:
            await self.recorder.record_image_intent(entry)
        except PetsyncError:
            self.in_flight.discard(entry.number)
            raise

    def _new_entry(self, number: int, before: Pet) -> Entry:
        picture = self.items[number]
        return Entry(
            number=number,
            kind="upload",
            row=picture.row,
            source=picture.source,
            pet_id=picture.pet_id,
            before=before,
            digest=picture.sent_digest,
        )

    async def _prepare(
        self, number: int, picture: Picture
    ) -> tuple[UploadedFile | None, Pet, bytes]:
        """Return the result if an earlier run uploaded the picture, else None; the pet; and the
        bytes to send, which are empty if there is a result.
        """
        before = await self.stopper.wait_for(self._fetch_pet(picture))
        doubt = self._find_doubt(picture)
        if doubt is not None:
            result = await self._confirm_arrived(number, doubt, before)
            if result is not None:
                return result, before, b""
            before = await self.stopper.wait_for(self._fetch_pet(picture))
        return None, before, await self.stopper.wait_for(self._read_content(picture))

    async def _run_cancellable(self, number: int, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work. Raises UnsentError if the picture is cancelled before the
        work ends.
        """
        if number in self.canceller:
            work.close()
            raise self._build_cancelled_error(number)
        task = asyncio.ensure_future(work)
        self._cancel_tasks[number] = task.cancel
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_picture_cancelled(number):
                raise self._build_cancelled_error(number) from None
            raise
        finally:
            del self._cancel_tasks[number]

    def _is_picture_cancelled(self, number: int) -> bool:
        """Return true if only this picture was cancelled, and not the whole run."""
        task = asyncio.current_task()
        is_run_cancelled = task is not None and task.cancelling() > 0
        return number in self.canceller and not is_run_cancelled and not self.stopper.reason

    def _build_cancelled_error(self, number: int) -> UnsentError:
        return UnsentError(result_of(self.items[number], "not sent", "not-begun", _CANCELLED))

    # Before a picture is sent ------------------------------------------------------------------

    async def _fetch_pet(self, picture: Picture) -> Pet:
        """Return the current pet. Raises UnsentError if it does not exist or cannot be read."""
        try:
            pet = await self.target.get(picture.pet_id)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            raise UnsentError(
                result_of(picture, "failed", cause_of(error), error.problem, cure=RERUN_CURE)
            ) from None
        if pet is None:
            raise UnsentError(result_of(picture, "failed", "gone", _PET_GONE))
        return pet

    def _find_doubt(self, picture: Picture) -> Attempt | None:
        """Return the earlier attempt whose result is unknown; None if there is none. Raises
        UnsentError if an earlier attempt succeeded, unless the option `again` repeats it.
        """
        key = (picture.pet_id, (picture.digest, picture.sent_digest))
        attempt = self.earlier.attempt(key)
        # The same `pictures` may be uploaded twice; `again` repeats only the uploads that are older
        # than `pictures`.
        is_again = self.pictures.options.again
        if attempt is not None and not (
            is_again and attempt.entry.intended <= self.pictures.created
        ):
            why = f"uploaded before, in run {attempt.run_id}"
            raise UnsentError(result_of(picture, "unchanged", "already-so", why))
        return None if picture.decision == "again" else self.earlier.doubt(key)

    async def _confirm_arrived(self, number: int, doubt: Attempt, now: Pet) -> UploadedFile | None:
        """Return the result of a picture whose earlier upload has succeeded; None if the pet shows
        that it has not. Raises UnsentError if the pet's photos cannot show this.
        """
        picture = self.items[number]
        urls = self.earlier.find_arrived_urls(doubt, now)
        if not urls and self.adds and (seconds := self._seconds_to_wait(doubt.entry)) > 0:
            await self.stopper.wait_for(asyncio.sleep(seconds))
            urls = self.earlier.find_arrived_urls(
                doubt, await self.stopper.wait_for(self._fetch_pet(picture))
            )
        if not urls:
            if not self.adds:
                raise UnsentError(
                    result_without_upload(msgspec.structs.replace(picture, run=doubt.run_id))
                )
            return None
        before = doubt.entry.before or now
        after = msgspec.structs.replace(before, photo_urls=(*before.photo_urls, *urls))
        entry = self._new_entry(number, before)
        await self.recorder.record_image_intent(entry)
        why = f"uploaded in run {doubt.run_id}: the store has its photo"
        return self._record_result(entry, "applied", "confirmed", why, after=after, urls=urls)

    def _seconds_to_wait(self, entry: Entry) -> float:
        """Return the seconds until an upload without a response is no longer expected to take
        effect.
        """
        # A killed process left an entry without an outcome and without the time of its last
        # request. Then only the time since this run began counts.
        elapsed = time.monotonic() - self.started_at
        if entry.outcome is not None:
            age = datetime.now(UTC) - datetime.fromisoformat(entry.intended)
            elapsed = max(age.total_seconds() - entry.seconds, elapsed)
        return self.settle - elapsed

    async def _read_content(self, picture: Picture) -> bytes:
        try:
            async with self._decoding:
                return await asyncio.to_thread(read_prepared, picture, self.pictures.options)
        except UnusableImageError as error:
            why, cure = error.problem, error.cure
        except OSError as error:
            why, cure = f"it cannot be read: {error.strerror}", ""
        raise UnsentError(result_of(picture, "failed", "changed-since", why, cure=cure))

    # After a picture is sent -------------------------------------------------------------------

    async def _upload(self, number: int, entry: Entry, content: bytes) -> UploadedFile:
        picture = self.items[number]

        async def again(error: ApiError) -> None:
            self.stopper.check()
            self.recorder.record_retry(number, error.problem)
            self.on_retry(number, error.problem)

        sending = self.target.upload(
            picture.pet_id,
            content,
            filename=_bare_file_name(picture),
            metadata=picture.metadata,
            before_retry=again,
            on_sent=lambda sent: self.on_sent(number, sent),
        )
        try:
            await self._run_cancellable(number, sending)
        except UnsentError:
            return await self._check_cancelled(entry)
        except StoppedError:
            return self._record_unsent(entry)
        except (AuthError, UnavailableError) as error:
            if not error.may_have_happened:
                self.stopper.stop(error.text)
                return self._record_failed(entry, error)
            raise
        except ApiError as error:
            if not error.may_have_happened:
                return self._record_failed(entry, error)
            return await self._check_outcome(entry, error)
        return await self._read_added_urls(entry, len(content))

    async def _read_added_urls(self, entry: Entry, sent: int) -> UploadedFile:
        """Return the result of an upload that the service confirmed, with the new photo URLs."""
        try:
            now = await self._read_pet(entry)
        except ApiError as error:
            why = f"uploaded; the photo's URL could not be read: {error.problem}"
            return self._record_result(entry, "applied", "", why, sent=sent)
        urls = () if entry.before is None or now is None else added_urls(entry.before, now)
        return self._record_result(entry, "applied", "", "", after=now, urls=urls, sent=sent)

    async def _check_outcome(self, entry: Entry, error: ApiError) -> UploadedFile:
        """Return the result of an upload without a response, from the pet's photos."""
        now: Pet | None = None
        try:
            now = await self._read_pet(entry)
            if now is not None and entry.before is not None:
                urls = added_urls(entry.before, now)
                if urls:
                    why = "confirmed by a photo that the pet did not have before"
                    return self._record_result(
                        entry, "applied", "confirmed", why, after=now, urls=urls
                    )
        except ApiError:
            return self._record_result(
                entry, "unknown", cause_of(error), error.problem, cure=RERUN_TO_CHECK_CURE
            )
        if not self.adds:
            return self._record_result(
                entry, "unknown", cause_of(error), error.problem, cure=_LOOK_CURE
            )
        return self._record_result(
            entry, "failed", cause_of(error), error.problem, after=now, cure=RERUN_TO_CHECK_CURE
        )

    async def _check_cancelled(self, entry: Entry) -> UploadedFile:
        """Return the result of a picture whose request was cancelled: it is unknown, unless the
        pet's photos show that the service received the picture.
        """
        try:
            now = await self._read_pet(entry)
        except ApiError:
            now = None
        if now is not None and entry.before is not None and (urls := added_urls(entry.before, now)):
            why = "it was uploaded before it could be cancelled"
            return self._record_result(entry, "applied", "confirmed", why, after=now, urls=urls)
        why = "cancelled while it was being sent, and the pet's photos do not show it"
        return self._record_result(
            entry, "unknown", "cut-off", why, cure=RERUN_TO_CHECK_CURE if self.adds else _LOOK_CURE
        )

    async def _read_pet(self, entry: Entry) -> Pet | None:
        return None if entry.pet_id is None else await self.target.get(entry.pet_id)

    def _record_unsent(self, entry: Entry) -> UploadedFile:
        if not self.stopper.reason:
            return self._record_result(entry, "not sent", "not-begun", _CANCELLED)
        why = f"not uploaded: {self.stopper.reason.splitlines()[0]}"
        return self._record_result(entry, "not sent", "not-begun", why, cure=RERUN_CURE)

    def _record_failed(self, entry: Entry, error: ApiError) -> UploadedFile:
        result = self.failed_result(entry.number, error)
        return self._record_result(entry, "failed", result.cause, result.message, cure=result.cure)

    def failed_result(self, number: int, error: ApiError) -> UploadedFile:
        """Return the result of a picture that was certainly not uploaded."""
        if isinstance(error, NotFoundError):
            return result_of(self.items[number], "failed", "gone", _PET_GONE)
        cause = cause_of(error)
        cure = RERUN_CURE if cause in HOLDING_CAUSES else error.cure
        return result_of(self.items[number], "failed", cause, error.problem, cure=cure)

    def _record_result(
        self,
        entry: Entry,
        outcome: Outcome,
        cause: Cause,
        message: str,
        *,
        after: Pet | None = None,
        urls: tuple[str, ...] = (),
        cure: str = "",
        sent: int = 0,
    ) -> UploadedFile:
        finished_entry = msgspec.structs.replace(
            entry, outcome=outcome, cause=cause, message=message, after=after
        )
        self.recorder.record_image_result(finished_entry)
        # A photo of this run does not show that an earlier upload of another picture arrived.
        self.earlier.take(Attempt("", finished_entry, ()))
        picture = self.items[entry.number]
        return result_of(picture, outcome, cause, message, cure=cure, urls=urls, sent=sent)


def _bare_file_name(picture: Picture) -> str:
    """Return the file's name without its folder, for the service."""
    return picture.file.replace("\\", "/").rpartition("/")[2] or "image"


# The engine: uploads each pet's pictures one after the other, several pets at a time.
#
# Sending an upload twice would add a second image, and an upload has no id. So the pet is read
# before and after the upload: a photo URL that the service added proves that the upload succeeded.


_INTERRUPTED = "under way when the run was stopped"
_PROGRESS_INTERVAL_S = 0.1


async def run(
    pictures: Pictures,
    target: Target,
    recorder: ImageRecorder,
    earlier: Uploads,
    *,
    run_id: str,
    started: str,
    adds: bool,
    options: UploadOptions,
    on_progress: Callable[[UploadProgress], None] | None = None,
    on_file: Callable[[FileProgress], None] | None = None,
    cancelling: UploadCanceller | None = None,
) -> UploadReport:
    """Upload the pictures in `pictures.items`, and return a report on every file.

    `earlier` has the uploads of earlier runs; `adds` indicates whether the service adds a photo
    URL to a pet for each upload. After an error that stops the run, the remaining pictures are `not
    sent`; the report's `stopped` says why. `on_file` is called with the progress of each picture;
    pictures that `cancelling` contains are not sent.
    """
    start = time.monotonic()
    canceller = cancelling or UploadCanceller()
    engine = _Engine(
        pictures, target, recorder, earlier, adds, options, canceller, on_progress, on_file
    )
    stopped = await engine.run()
    return _report(pictures, run_id, started, time.monotonic() - start, engine.results(), stopped)


def without_run(pictures: Pictures, *, started: str) -> UploadReport:
    """Return the report of an upload without a run, because no picture is to be uploaded."""
    return _report(pictures, "", started, 0.0, {}, "")


def _report(
    pictures: Pictures,
    run_id: str,
    started: str,
    seconds: float,
    results: dict[int, UploadedFile],
    stopped: str,
) -> UploadReport:
    item_results = iter(results.values())
    files = [
        next(item_results) if picture.is_item else result_without_upload(picture)
        for picture in pictures.pictures
    ]
    return UploadReport(
        run_id=run_id,
        store=pictures.store,
        source=pictures.source,
        started=started,
        seconds=round(seconds, 3),
        results=(*files, *map(result_of_problem, pictures.problems)),
        ignored=pictures.ignored,
        stopped=stopped,
    )


class _Engine:
    def __init__(
        self,
        pictures: Pictures,
        target: Target,
        recorder: ImageRecorder,
        earlier: Uploads,
        adds: bool,
        options: UploadOptions,
        canceller: UploadCanceller,
        on_progress: Callable[[UploadProgress], None] | None,
        on_file: Callable[[FileProgress], None] | None,
    ) -> None:
        self._items, self._bytes = pictures.items, pictures.total_bytes
        self._target, self._recorder = target, recorder
        self._options, self._on_progress, self._on_file = options, on_progress, on_file
        self._canceller = canceller
        self._results: dict[int, UploadedFile] = {}
        self._in_flight: set[int] = set()
        self._stopper = Stopper(options.grace, self._in_flight)
        self._sender = PictureSender(
            pictures=pictures,
            target=target,
            recorder=recorder,
            earlier=earlier,
            adds=adds,
            settle=options.settle,
            stopper=self._stopper,
            in_flight=self._in_flight,
            on_sent=self._on_sent,
            on_retry=self._on_retry,
            canceller=canceller,
        )
        self._sent: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()
        self._problems = self._bytes_sent = 0
        self._reported_at = 0.0

    async def run(self) -> str:
        """Upload everything; return why the run stopped early, "" if it did not."""
        self._canceller.listen(self._sender.cancel)
        await run_to_end(self._work(), self._stopper.interrupt)
        return self._stopper.reason

    def results(self) -> dict[int, UploadedFile]:
        """Return a result for each picture, by its number; those that were not started are `not
        sent`, and those still in flight are `unknown`.
        """
        why = (
            f"not started: {self._stopper.reason.splitlines()[0]}"
            if self._stopper.reason
            else "not started"
        )
        results = {}
        for number, picture in enumerate(self._items):
            default = result_of(picture, "not sent", "not-begun", why, cure=RERUN_CURE)
            if number in self._in_flight:
                default = result_of(
                    picture, "unknown", "cut-off", _INTERRUPTED, cure=RERUN_TO_CHECK_CURE
                )
            results[number] = self._results.get(number, default)
        return results

    async def _work(self) -> None:
        try:
            groups = iter(self._groups())
            async with asyncio.TaskGroup() as group:
                for _ in range(self._options.concurrency):
                    self._stopper.watch(group.create_task(self._worker(groups)))
            await self._recorder.flush()
        except PetsyncError as error:
            self._stopper.stop(error.text)

    def _groups(self) -> Iterable[list[int]]:
        """Return the numbers of each pet's pictures, in their order."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for number, picture in enumerate(self._items):
            groups[picture.pet_id].append(number)
        return groups.values()

    async def _worker(self, groups: Iterator[list[int]]) -> None:
        for numbers in groups:
            holder: UploadedFile | None = None
            for number in numbers:
                if self._stopper.reason:
                    return
                self._stopper.set_current(number)
                holder = holder or self._find_holder(number)
                if holder is None:
                    await self._upload_picture(number)
                    holder = self._find_holder(number)
                else:
                    self._hold_back(number, holder)

    def _find_holder(self, number: int) -> UploadedFile | None:
        result = self._results.get(number)
        if result is None or result.outcome not in ("failed", "unknown"):
            return None
        if number in self._canceller:
            return None
        return result if result.cause in HOLDING_CAUSES else None

    def _hold_back(self, number: int, holder: UploadedFile) -> None:
        state = "was not uploaded" if holder.outcome == "failed" else "may not have been uploaded"
        why = f"held back, because {holder.file} comes before it and {state}"
        cure = "Run the same command again to upload the others in order."
        picture = self._items[number]
        self._finish(number, result_of(picture, "not sent", "held-back", why, cure=cure))

    async def _upload_picture(self, number: int) -> None:
        self._report_file(number)
        try:
            self._finish(number, await self._sender.send(number))
            await self._recorder.flush()
        except UnsentError as reason:
            self._finish(number, reason.result)
        except StoppedError:
            return
        except PetsyncError as error:
            self._stop(number, error)
        except Exception as error:  # noqa: BLE001 - an unexpected error in one picture must not lose the report
            self._stopper.stop(f"unexpected: {error!r}")

    def _stop(self, number: int, error: PetsyncError) -> None:
        """Stop the run after the uploads in flight. The upload of this picture failed if it cannot
        have reached the service; otherwise its result stays unknown.
        """
        self._stopper.stop(error.text)
        if not isinstance(error, ApiError) or error.may_have_happened:
            return
        self._in_flight.discard(number)
        self._results[number] = self._sender.failed_result(number, error)

    # Progress ----------------------------------------------------------------------------------

    def _finish(self, number: int, result: UploadedFile) -> None:
        self._results[number] = result
        self._problems += result.outcome in ("failed", "unknown")
        if self._items[number].decision != "confirm":
            self._count(number, self._items[number].sent_size)
        self._report_file(number, result=result)
        self._report_progress()

    def _on_retry(self, number: int, why: str) -> None:
        self._attempts[number] += 1
        self._report_file(number, why=why)

    def _on_sent(self, number: int, sent: int) -> None:
        self._report_file(number, sent)
        self._count(number, sent)
        now = time.monotonic()
        if now - self._reported_at >= _PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._report_progress()

    def _count(self, number: int, sent: int) -> None:
        """Add the bytes that were sent for a picture; bytes that a second attempt sends again do
        not count.
        """
        self._bytes_sent += max(sent - self._sent[number], 0)
        self._sent[number] = max(sent, self._sent[number])

    def _report_file(
        self, number: int, sent: int = 0, *, why: str = "", result: UploadedFile | None = None
    ) -> None:
        if self._on_file is None:
            return
        self._stopper.report(
            self._on_file,
            FileProgress(
                number=number,
                sent=sent,
                total=self._items[number].sent_size,
                attempt=self._attempts[number] + 1,
                why=why,
                result=result,
            ),
        )

    def _report_progress(self) -> None:
        if self._on_progress is None:
            return
        self._stopper.report(
            self._on_progress,
            UploadProgress(
                sent=self._bytes_sent,
                total=self._bytes,
                done=len(self._results),
                files=len(self._items),
                problems=self._problems,
                traffic=self._target.traffic,
            ),
        )


# The uploads of earlier runs, as the journal records them.


def uploads_to(journal: Journal, store: str) -> Uploads:
    """Return the uploads to a store that the journal records. Uploads that an undo reversed are
    marked as undone.

    Raises PetsyncError if the journal is damaged.
    """
    runs = journal.runs(store)
    return _collect_uploads(journal, runs, [run for run in runs if run.kind == "upload"])


def repeated_uploads(journal: Journal, store: str, source: str) -> Uploads:
    """Return the uploads of the newest runs of this source, if these runs used the option `again`
    and did not finish. A new run continues their repetition.
    """
    runs = journal.runs(store)
    return _collect_uploads(journal, runs, list(_iter_unfinished(journal, runs, source)))


def _collect_uploads(
    journal: Journal, runs: Sequence[PastRun], chosen: Sequence[PastRun]
) -> Uploads:
    undone_pets = collect_undone_pets(runs, journal.entries)
    attempts = (
        Attempt(*upload, undone=upload[1].pet_id in undone_pets.get(run.run_id, ()))
        for run in reversed(chosen)
        for upload in _iter_upload_entries(journal, run.run_id)
    )
    return Uploads.of(attempts)


def _iter_unfinished(journal: Journal, runs: Sequence[PastRun], source: str) -> Iterator[PastRun]:
    for run in runs:
        if run.kind != "upload" or run.source != source:
            continue
        if not (has_remaining(run) and _is_again(journal.payload(run.run_id))):
            return
        yield run


def _is_again(payload: bytes) -> bool:
    try:
        return Pictures.from_json(payload).options.again
    except PlanError:
        return False


def _iter_upload_entries(
    journal: Journal, run_id: str
) -> Iterator[tuple[str, Entry, tuple[str, ...]]]:
    files = _file_digests(journal.payload(run_id))
    for entry in journal.entries(run_id):
        file = files[entry.number] if entry.number < len(files) else ""
        yield run_id, entry, (entry.digest, file)


def _file_digests(payload: bytes) -> Sequence[str]:
    """Return the digests of a run's files, by number; empty if the payload has an unknown
    format.
    """
    try:
        return [picture.digest for picture in Pictures.from_json(payload).pictures]
    except PlanError:
        return ()


# The report of an earlier upload, rebuilt from its run's payload and the journal's entries.


def rebuild_upload_report(
    past: PastRun, pictures: Pictures, entries: Iterable[Entry]
) -> UploadReport:
    """Return the report with a result for each file that the run was to upload. Files that it did
    not try, because they were uploaded before or had a problem, are neither in the journal nor in
    this report.
    """
    known = {entry.number: entry for entry in entries}
    results = (
        _result(picture, known.get(number)) for number, picture in enumerate(pictures.pictures)
    )
    return UploadReport(
        run_id=past.run_id,
        store=past.store,
        source=past.source,
        started=past.started,
        seconds=past.seconds,
        results=tuple(results),
        stopped=past.stopped if past.state == "stopped" else "",
    )


def _result(picture: Picture, entry: Entry | None) -> UploadedFile:
    if entry is None:
        why = "nothing was sent for it in this run"
        return result_of(picture, "not sent", "not-begun", why, cure=_RERUN_UNSENT_CURE)
    if entry.outcome is None:
        why = "started, and it is not known yet whether it succeeded"
        return result_of(picture, "unknown", "cut-off", why, cure=RERUN_TO_CHECK_CURE)
    is_applied = entry.outcome == "applied"
    return result_of(
        picture,
        entry.outcome,
        entry.cause,
        entry.message,
        cure=_find_advice(entry),
        urls=_urls(entry) if is_applied else (),
        sent=picture.sent_size if is_applied and entry.cause != "confirmed" else 0,
    )


def _find_advice(entry: Entry) -> str:
    """Return the advice to the user; "" if nothing is left to do, or if the same upload would fail
    again.
    """
    if entry.outcome == "not sent":
        return RERUN_CURE
    may_succeed = entry.outcome == "failed" and entry.cause in HOLDING_CAUSES
    return RERUN_TO_CHECK_CURE if may_succeed or entry.outcome == "unknown" else ""


def _urls(entry: Entry) -> tuple[str, ...]:
    if entry.before is None or entry.after is None:
        return ()
    return added_urls(entry.before, entry.after)
