"""Uploads carried out: each pet's pictures one after the other, several pets at a time.

An upload is the one change that cannot be sent twice without harm, and that has no id to be found
by. So its pet is read before and after it: what tells that it came through is the address that the
service added.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

import msgspec

from petsync.apply.halt import Halt, HaltedError
from petsync.apply.pictures.cancelling import Cancelling
from petsync.apply.pictures.sending import (
    AGAIN,
    HOLDING,
    NEXT,
    ImageRecorder,
    PictureSender,
    UnsentError,
    left_alone,
)
from petsync.apply.target import Target
from petsync.diff.pictures import Pictures
from petsync.diff.uploaded import (
    FileProgress,
    Uploaded,
    UploadedFile,
    Uploading,
    result_of,
    result_of_problem,
)
from petsync.diff.uploads import Uploads
from petsync.errors import ApiError, PetsyncError, SettingsError

__all__ = ["UploadOptions", "run", "without_run"]

_CUT = "under way when the run was stopped"
_EVERY = 0.1
_MOST = 64


class UploadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`concurrency` pets at a time. Times are in seconds: a stopped run waits `grace` for uploads
    that are on their way, and an earlier upload that got no answer is sent again once `settle` has
    passed since then (after a crash, since this run began) and the pet still has no new photo.
    Raises SettingsError.
    """

    concurrency: int = 4
    settle: float = 30.0
    grace: float = 1.5

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or not 1 <= self.concurrency <= _MOST:
            raise SettingsError(f"concurrency is {self.concurrency!r}; it must be 1 to {_MOST}")
        if not 0 <= self.settle <= 3600:
            raise SettingsError(f"settle is {self.settle!r}; it must be seconds from 0 to 3600")


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
    on_progress: Callable[[Uploading], None] | None = None,
    on_file: Callable[[FileProgress], None] | None = None,
    cancelling: Cancelling | None = None,
) -> Uploaded:
    """Upload what is to be uploaded, and report on every file.

    `earlier` is what earlier runs did; `adds` whether the service adds an address to a pet for
    each upload. What stops the whole run leaves the rest `skipped`; `stopped` says why. `on_file`
    is told of each picture alone, and those that are `cancelling` are left out.
    """
    begun = time.monotonic()
    unwanted = cancelling or Cancelling()
    engine = _Engine(
        pictures, target, recorder, earlier, adds, options, unwanted, on_progress, on_file
    )
    stopped = await engine.run()
    return _report(pictures, run_id, started, time.monotonic() - begun, engine.results(), stopped)


def without_run(pictures: Pictures, *, started: str) -> Uploaded:
    """The report where there is nothing to upload."""
    return _report(pictures, "", started, 0.0, {}, "")


def _report(
    pictures: Pictures,
    run_id: str,
    started: str,
    seconds: float,
    results: dict[int, UploadedFile],
    stopped: str,
) -> Uploaded:
    of_items = iter(results.values())
    told = [
        next(of_items) if picture.is_item else left_alone(picture) for picture in pictures.pictures
    ]
    return Uploaded(
        run_id=run_id,
        store=pictures.store,
        source=pictures.source,
        started=started,
        seconds=round(seconds, 3),
        results=(*told, *map(result_of_problem, pictures.problems)),
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
        cancelling: Cancelling,
        on_progress: Callable[[Uploading], None] | None,
        on_file: Callable[[FileProgress], None] | None,
    ) -> None:
        self._items, self._bytes = pictures.items, pictures.total_bytes
        self._target, self._recorder = target, recorder
        self._options, self._on_progress, self._on_file = options, on_progress, on_file
        self._cancelling = cancelling
        self._results: dict[int, UploadedFile] = {}
        self._on_wire: set[int] = set()
        self._halt = Halt(options.grace, self._on_wire)
        self._sender = PictureSender(
            pictures=pictures,
            target=target,
            recorder=recorder,
            earlier=earlier,
            adds=adds,
            settle=options.settle,
            halt=self._halt,
            on_wire=self._on_wire,
            on_sent=self._on_sent,
            on_again=self._on_again,
            cancelling=cancelling,
        )
        self._sent: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()
        self._problems = self._bytes_sent = 0
        self._told_at = 0.0

    async def run(self) -> str:
        """Work to the end or to a stop; why it stopped, "" if it did not."""
        self._cancelling.listen(self._sender.cancelled)
        await self._halt.ended(self._work())
        return self._halt.why

    def results(self) -> dict[int, UploadedFile]:
        """A result for each picture, by its number; those that were not begun are skipped."""
        why = f"not begun: {self._halt.why.splitlines()[0]}" if self._halt.why else "not begun"
        results = {}
        for number, picture in enumerate(self._items):
            rest = result_of(picture, "skipped", "not-begun", why, cure=NEXT)
            if number in self._on_wire:
                rest = result_of(picture, "unknown", "cut-off", _CUT, cure=AGAIN)
            results[number] = self._results.get(number, rest)
        return results

    async def _work(self) -> None:
        try:
            groups = iter(self._groups())
            async with asyncio.TaskGroup() as group:
                for _ in range(self._options.concurrency):
                    self._halt.watch(group.create_task(self._worker(groups)))
            await self._recorder.flush()
        except PetsyncError as error:
            self._halt.stop(str(error))

    def _groups(self) -> Iterable[list[int]]:
        """The numbers of each pet's pictures, in their order."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for number, picture in enumerate(self._items):
            groups[picture.pet_id].append(number)
        return groups.values()

    async def _worker(self, groups: Iterator[list[int]]) -> None:
        for numbers in groups:
            holder: UploadedFile | None = None
            for number in numbers:
                if self._halt.why:
                    return
                self._halt.at(number)
                holder = holder or self._holding(number)
                if holder is None:
                    await self._one(number)
                    holder = self._holding(number)
                else:
                    self._hold(number, holder)

    def _holding(self, number: int) -> UploadedFile | None:
        result = self._results.get(number)
        if result is None or result.outcome not in ("failed", "unknown"):
            return None
        if number in self._cancelling:
            return None
        return result if result.cause in HOLDING else None

    def _hold(self, number: int, holder: UploadedFile) -> None:
        why = f"held back, as {holder.file} comes before it and did not come through"
        cure = "The same command again uploads both, in their order."
        picture = self._items[number]
        self._end(number, result_of(picture, "skipped", "held-back", why, cure=cure))

    async def _one(self, number: int) -> None:
        self._tell_of(number)
        try:
            self._end(number, await self._sender.send(number))
            await self._recorder.flush()
        except UnsentError as reason:
            self._end(number, reason.result)
        except HaltedError:
            return
        except PetsyncError as error:
            self._stop(number, error)
        except Exception as error:  # noqa: BLE001 - one picture's surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")

    def _stop(self, number: int, error: PetsyncError) -> None:
        """End the run after the uploads under way; this one has the result that it can have."""
        self._halt.stop(str(error))
        if not isinstance(error, ApiError) or error.may_have_happened:
            return
        self._on_wire.discard(number)
        self._results[number] = self._sender.failed(number, error)

    # Progress ----------------------------------------------------------------------------------

    def _end(self, number: int, result: UploadedFile) -> None:
        self._results[number] = result
        self._problems += result.outcome in ("failed", "unknown")
        if self._items[number].fate != "confirm":
            self._count(number, self._items[number].sent_size)
        self._tell_of(number, result=result)
        self._tell()

    def _on_again(self, number: int, why: str) -> None:
        self._attempts[number] += 1
        self._tell_of(number, why=why)

    def _on_sent(self, number: int, sent: int) -> None:
        self._tell_of(number, sent)
        self._count(number, sent)
        now = time.monotonic()
        if now - self._told_at >= _EVERY:
            self._told_at = now
            self._tell()

    def _count(self, number: int, sent: int) -> None:
        """So many bytes of a picture have gone out; an attempt anew takes none back."""
        self._bytes_sent += max(sent - self._sent[number], 0)
        self._sent[number] = max(sent, self._sent[number])

    def _tell_of(
        self, number: int, sent: int = 0, *, why: str = "", result: UploadedFile | None = None
    ) -> None:
        if self._on_file is None:
            return
        self._on_file(
            FileProgress(
                number=number,
                sent=sent,
                total=self._items[number].sent_size,
                attempt=self._attempts[number] + 1,
                why=why,
                result=result,
            )
        )

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        self._on_progress(
            Uploading(
                sent=self._bytes_sent,
                total=self._bytes,
                done=len(self._results),
                files=len(self._items),
                problems=self._problems,
                traffic=self._target.traffic,
            )
        )
