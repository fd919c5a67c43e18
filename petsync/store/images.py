"""Images in bulk: find the images to upload, and upload them under the journal's lock."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Unpack

import msgspec

from petsync._display import type_name
from petsync._options import show_keywords
from petsync._sync import in_thread
from petsync.apply.journal import Journal, RunSession
from petsync.apply.options import UploadKeywords, UploadOptions
from petsync.client.api import AsyncApi
from petsync.client.loaders import look_up
from petsync.client.target import ServiceTarget, photo, target_of
from petsync.errors import InterruptedRunError, PlanError, SettingsError
from petsync.images import upload
from petsync.images.find import (
    DEFAULT_PATTERNS,
    Candidate,
    ImageMatches,
    Patterns,
    find_in_folder,
    find_in_sheet,
)
from petsync.images.inspect import decide_uploads, decoders, inspect_files, with_pet
from petsync.images.upload import (
    RERUN_CURE,
    UploadCanceller,
    repeated_uploads,
    uploads_to,
)
from petsync.models import Pet
from petsync.plan import arguments
from petsync.plan.change import FailedLookup, Snapshot
from petsync.plan.options import PictureKeywords, PictureOptions
from petsync.plan.uploads import (
    FileProgress,
    Picture,
    PictureProblem,
    Pictures,
    ScanProgress,
    UploadProgress,
    UploadReport,
    Uploads,
)
from petsync.settings import Settings
from petsync.sheets.files import must_not_be_address
from petsync.table.frame import unique_texts
from petsync.table.options import ReadKeywords
from petsync.table.sheet import Sheet

__all__ = ["StoreImages"]


Members = list[tuple[Candidate, Pet]]
OnScanned = Callable[[ScanProgress], None] | None


@dataclass(frozen=True, slots=True)
class StoreImages:
    """Finds and uploads images of one store's pets; `read` and `snapshot` are the store's
    methods.
    """

    api: AsyncApi
    settings: Settings
    read: Callable[..., Sheet]
    snapshot: Callable[[], Awaitable[Snapshot]]

    @show_keywords(PictureKeywords, PictureOptions)
    async def pictures(
        self,
        source: Sheet | str | Path,
        *,
        column: str | None = None,
        tab: str | None = None,
        encoding: str | None = None,
        folder: str | Path | None = None,
        metadata_column: str | None = None,
        metadata: str | None = None,
        pattern: str | Iterable[str] = DEFAULT_PATTERNS,
        recursive: bool = False,
        on_progress: Callable[[ScanProgress], None] | None = None,
        **options: Unpack[PictureKeywords],
    ) -> Pictures:
        """Return the images that `upload` would send. Sends only GET requests.

        The images are those in the folder `source`, or those that the `column` of a sheet names.
        Each is decoded completely, and its pet is looked up. In a folder, a name must match a
        `pattern` of {id}, {n} and *, such as `{id}_{n}`. Paths in a sheet are relative to its
        folder, or to `folder`. `metadata` is the additionalMetadata of every image for which
        neither the `metadata_column` nor metadata.csv in the folder has a text.

        Embedded metadata (place, time, camera, comments) is removed by default. Raises SheetError
        if the folder, sheet or column cannot be read, SettingsError for invalid options and for
        those that cannot apply to the source, and ApiError if the store does not answer.
        """
        decoders()  # raise MissingExtraError before any request
        chosen = PictureOptions(**options)
        for name, text in {"column": column, "metadata_column": metadata_column}.items():
            if text is not None and not isinstance(text, str):
                raise SettingsError(
                    f"{name} is {text!r}, not the header of a column",
                    hint=f'Write its text, such as {name}="file".',
                )
        if column is not None:
            if recursive or pattern != DEFAULT_PATTERNS:
                raise SettingsError(
                    f"{'recursive' if recursive else 'pattern'} is valid only for a folder",
                    hint="The column names the files, so leave the option out.",
                )
            sheet = await self._sheet(source, {"tab": tab, "encoding": encoding})
            find_in = partial(
                find_in_sheet,
                sheet,
                column,
                folder=Path(sheet.source).parent if folder is None else Path(folder),
                metadata_column=metadata_column,
                metadata=metadata,
            )
            return await self._pictures(
                sheet.source, await asyncio.to_thread(find_in), chosen, on_progress
            )
        root = arguments.folder_of(
            source, tab=tab, encoding=encoding, folder=folder, metadata_column=metadata_column
        )
        must_not_be_address(root)
        find = partial(find_in_folder, recursive=recursive, metadata=metadata)
        found = await asyncio.to_thread(find, Path(root), Patterns.of(pattern))
        return await self._pictures(root, found, chosen, on_progress)

    @show_keywords(PictureKeywords, PictureOptions)
    async def pictures_of(
        self,
        pet_id: int,
        files: str | Path | Iterable[str | Path],
        *,
        metadata: str | None = None,
        on_progress: Callable[[ScanProgress], None] | None = None,
        **options: Unpack[PictureKeywords],
    ) -> Pictures:
        """Return the images that `upload` would send to one pet.

        The images are these files in the given order, whatever their names are. `row` of a picture
        or problem is the index of its file.
        """
        number = arguments.pet_id(pet_id)
        chosen = PictureOptions(**options)
        paths = _paths_of(files)
        candidates = [
            Candidate(path=path, file=path.name, pet_id=number, place=at, row=at, metadata=metadata)
            for at, path in enumerate(paths)
        ]
        found = ImageMatches(candidates=candidates)
        return await self._pictures(f"files for pet {number}", found, chosen, on_progress)

    @show_keywords(UploadKeywords, UploadOptions, settle=None)
    async def upload(
        self,
        pictures: Pictures,
        *,
        on_progress: Callable[[UploadProgress], None] | None = None,
        on_file: Callable[[FileProgress], None] | None = None,
        cancelling: UploadCanceller | None = None,
        **options: Unpack[UploadKeywords],
    ) -> UploadReport:
        """Upload the images, and return the outcome of every file.

        Images of one pet are sent one after the other. The journal records the run: a later run
        does not send the same image again, unless the option `again` of `pictures` is set.
        `on_progress` is called for all images together, `on_file` for each; `cancelling` cancels
        single images.

        Raises PlanError for images for another store, and LockedError if another run uses this
        store, before it sends anything. Raises InterruptedRunError, whose `report` has the results
        so far, if the run was stopped; to complete it, read the same folder or sheet again and
        upload the remaining images.
        """
        arguments.checked_pictures(pictures)
        chosen = UploadOptions.of({"settle": self.settings.timeout}, options)
        session = self.api.session
        if pictures.store != session.base_url:
            raise PlanError(
                f"the pictures are for {pictures.store}, and this store is {session.base_url}",
                hint="Upload them there, or call `pictures` of this store.",
            )
        now = datetime.now(UTC)
        started = now.isoformat(timespec="microseconds")
        if not pictures.items:
            return upload.without_run(pictures, started=started)
        session.require_write()
        run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        journal = await in_thread(partial(Journal.open, self.settings.state, create=True))
        await asyncio.sleep(0)  # if cancelled before this point, no run starts
        begin = partial(_begin, journal, run_id, pictures, started, chosen)
        # Read the earlier uploads only under the lock, when no other process can upload.
        find = partial(uploads_to, journal, pictures.store)
        target = ServiceTarget(self.api)
        async with await in_thread(begin) as run_session:
            target.before_send = run_session.confirm_lock
            session.pace.rate = chosen.rate
            try:
                report = await upload.run(
                    pictures,
                    target,
                    run_session,
                    await asyncio.to_thread(find),
                    run_id=run_session.run_id,
                    started=started,
                    adds=session.profile.upload_adds_photo,
                    options=chosen,
                    on_progress=on_progress,
                    on_file=on_file,
                    cancelling=cancelling,
                )
                report = await run_session.finish_report(report)
            finally:
                session.pace.rate = None
        if report.stopped:
            raise _build_stopped_error(report)
        return report

    async def photo(self, url: str) -> bytes:
        """Return the content of a photo whose URL is below the service's base URL.

        Raises InvalidInputError for any other URL, without a request, and ApiError if the service
        does not return the photo.
        """
        return await photo(self.api.session, url)

    def serves(self, url: str) -> bool:
        """Return true if `photo` can read the URL: it is below the service's base URL. A missing
        value of a DataFrame is not.
        """
        return target_of(self.api.session.base_url, url) is not None

    async def _sheet(self, source: Sheet | str | Path, options: ReadKeywords) -> Sheet:
        """Return the sheet. A file with an unknown status is read again with the store's statuses,
        because an upload does not depend on the status.
        """
        if isinstance(source, Sheet):
            return self.read(source, **options)
        sheet = await asyncio.to_thread(partial(self.read, source, **options))
        if not any(finding.column == "status" for finding in sheet.problems):
            return sheet
        known = unique_texts((await self.snapshot()).rows, "status")
        options = {**options, "known_statuses": known}
        return await asyncio.to_thread(partial(self.read, source, **options))

    async def _pictures(
        self,
        source: str,
        found: ImageMatches,
        options: PictureOptions,
        on_progress: OnScanned,
    ) -> Pictures:
        pets: Mapping[int, Pet | FailedLookup | None] = await look_up(
            self.api, [one.pet_id for one in found.candidates]
        )
        members: Members = []
        problems: list[PictureProblem] = []
        for each in with_pet(found.candidates, pets):
            if isinstance(each, PictureProblem):
                problems.append(each)
            else:
                members.append(each)
        inspected = await inspect_files(members, options, on_progress)
        problems += [each for each in inspected if isinstance(each, PictureProblem)]
        existing = {pet_id: pet for pet_id, pet in pets.items() if isinstance(pet, Pet)}
        profile = self.api.session.profile
        decide = partial(decide_uploads, adds=profile.upload_adds_photo)
        uploads = await asyncio.to_thread(self.load_earlier)
        repeated = await asyncio.to_thread(self.load_repeated, source) if options.again else None
        pictures = [each for each in inspected if isinstance(each, Picture)]
        return Pictures(
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
            store=self.api.session.base_url,
            source=source,
            options=options,
            pictures=tuple(decide(pictures, existing, uploads, again=repeated)),
            problems=(*problems, *found.problems),
            ignored=found.ignored,
            notes=tuple(found.notes),
        )

    def load_uploads(self, sheet: Sheet, journal: Journal) -> Uploads:
        """Return the photos that uploads added, if the sheet has a column for photos."""
        has_photos = "photo_urls" in sheet.rows
        return uploads_to(journal, self.api.session.base_url) if has_photos else Uploads()

    def load_earlier(self) -> Uploads:
        """Return the uploads to this store, from the journal."""
        journal = Journal.open(self.settings.state, create=False)
        return uploads_to(journal, self.api.session.base_url)

    def load_repeated(self, source: str) -> Uploads:
        """Return the uploads of the newest runs of this source, if these runs used the option
        `again` and did not finish.
        """
        journal = Journal.open(self.settings.state, create=False)
        return repeated_uploads(journal, self.api.session.base_url, source)


def _begin(
    journal: Journal, run_id: str, pictures: Pictures, started: str, options: UploadOptions
) -> RunSession:
    # The numbers of a journal's entries are the indexes in this list.
    payload = msgspec.structs.replace(pictures, pictures=pictures.items, problems=())
    return journal.begin(
        run_id,
        kind="upload",
        store=pictures.store,
        source=pictures.source,
        started=started,
        total=len(payload.pictures),
        payload=payload.to_json(),
        options=msgspec.to_builtins(options),
    )


def _build_stopped_error(report: UploadReport) -> InterruptedRunError:
    counts = report.counts
    done = f"{counts['applied']:,} of {len(report.results):,} files are uploaded."
    is_whole = counts["applied"] == len(report.results)
    rest = "Nothing is left." if is_whole else RERUN_CURE
    error = InterruptedRunError(
        f"upload {report.run_id} was stopped: {report.stopped.splitlines()[0]}",
        hint=f"{done} {rest}",
    )
    error.report = report
    return error


def _paths_of(files: object) -> list[Path]:
    """Return the path of a file, or the paths in a list. Raises SettingsError for other values."""
    single = isinstance(files, str | PathLike)
    given = [files] if single or not isinstance(files, Iterable) else [*files]
    if wrong := [each for each in given if not isinstance(each, str | PathLike)]:
        raise SettingsError(
            f"{type_name(wrong[0])} is not a path",
            hint='Give the name of a file, or a list of names, such as ["7-1.png", "7-2.png"].',
        )
    return [Path(str(each)) for each in given]
