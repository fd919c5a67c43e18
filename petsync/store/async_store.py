"""The class AsyncStore, which represents one service with asynchronous methods."""

from __future__ import annotations

import asyncio
import os.path
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, Unpack

import msgspec
import pandas as pd

import petsync.apply.planfile
import petsync.report  # noqa: F401 - plans, reports and sheets use it to display themselves
from petsync import sheets
from petsync._options import reject_unknown, show_keywords
from petsync._sync import LoopThread
from petsync.apply.options import ApplyKeywords, ApplyOptions, check_keywords
from petsync.client import loaders
from petsync.client.api import AsyncApi
from petsync.client.auth.browser import AsyncPendingSignIn
from petsync.client.auth.credentials import Credentials
from petsync.client.auth.keyring import CredentialStore
from petsync.client.auth.oauth import Authority
from petsync.client.loaders import Found, Lookups, look_up
from petsync.client.session import Session
from petsync.client.signin import SignInService, make_sign_in_request
from petsync.errors import FindingsError, PlanError, SettingsError, SheetError
from petsync.images.find import DEFAULT_PATTERNS
from petsync.images.upload import UploadCanceller, UploadOptions
from petsync.models import READ, WRITE, Account, Category, Pet, Tag
from petsync.plan import arguments
from petsync.plan.change import Snapshot
from petsync.plan.compare import compare, find_unproved_ids, must_have_columns
from petsync.plan.decide import FoundPets
from petsync.plan.explain import Explanations, explain
from petsync.plan.fields import Vocabulary
from petsync.plan.guard import NO_GUARD, Guard, GuardKeywords, guard_from
from petsync.plan.lineage import (
    Match,
    RenumberedPet,
    RestoredPet,
    Suspect,
    find_rows_of_removed_pets,
    find_suspects,
    identify,
    mark_doubts,
    slots_of,
)
from petsync.plan.match import find_absent_ids, has_unknown_names
from petsync.plan.options import PlanKeywords, PlanOptions, plan_options_from
from petsync.plan.plan import Plan
from petsync.plan.report import PastRun, Progress, Report
from petsync.plan.uploads import (
    FileProgress,
    PictureOptions,
    Pictures,
    ScanProgress,
    UploadProgress,
    UploadReport,
    Uploads,
)
from petsync.profile import ServiceProfile
from petsync.settings import Secret, Settings
from petsync.store.images import StoreImages
from petsync.store.runs import History, OnProgress, Runs, UndoPlanner, runs_frame
from petsync.table.base import Base
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import frame_from_pets, unique_texts
from petsync.table.options import ReadKeywords, ReadOptions
from petsync.table.sheet import Sheet

__all__ = [
    "AsyncStore",
    "ImageUploads",
    "PendingSignIn",
    "PetEdits",
    "SheetComparison",
    "SignInMethods",
    "build_sign_in_service",
]


# SheetComparison: a snapshot and a sheet, for plans and explanations.


@dataclass(frozen=True, slots=True)
class SheetComparison:
    """The input of a plan: the store's records, the sheet, and the look-ups for them."""

    snapshot: Snapshot
    sheet: Sheet
    found: FoundPets
    """The results of the look-ups, by id, for ids that the snapshot lacks."""
    uploads: Uploads = field(default_factory=Uploads)
    """Photos that uploads added."""
    matches: Mapping[int, Match] = field(default_factory=dict)
    """By row, the results of matching rows without an id with the records of earlier runs."""
    undone: Mapping[int, str] = field(default_factory=dict)
    """The ids of pets that undos removed, each with the id of the undone run."""
    restored: Mapping[int, RestoredPet] = field(default_factory=dict)
    """Pets that undos changed, with their values after the undo."""
    renumbered: Mapping[int, RenumberedPet] = field(default_factory=dict)
    """Pets that got an id other than the one they were added with."""
    outside: frozenset[int] = frozenset()
    """The ids of pets outside the caller's scope; they are not deleted as missing."""
    suspects: Mapping[int, Suspect] = field(default_factory=dict)
    """Rows whose id may refer to an earlier pet, not to the pet that has this id now."""

    def plan(
        self, options: PlanOptions, guard: Guard, *, profile: ServiceProfile, created: str
    ) -> Plan:
        """Return the plan that brings the store into agreement with the sheet."""
        return compare(
            self.snapshot,
            self.sheet,
            found=self.found,
            created=created,
            options=options,
            guard=guard,
            profile=profile,
            uploads=self.uploads,
            matches=self.matches,
            undone=self.undone,
            restored=self.restored,
            renumbered=self.renumbered,
            outside=self.outside,
            suspects=self.suspects,
        )

    def why(self, plan: Plan, pet_ids: Iterable[int]) -> Explanations:
        """Return the explanations of what the plan does with the pets."""
        return explain(
            plan,
            self.snapshot,
            self.sheet,
            self.found,
            pet_ids,
            uploads=self.uploads,
            matches=self.matches,
        )


# PetEdits: the part of AsyncStore that edits one pet, with all checks of a plan.


_EDIT_SOURCE = "edit"
_OTHERS_NOTE = "nothing happens to"
"""An edit omits notes that contain this text: they are about the store's other pets."""


class PetEdits(ABC):
    """Edits of one pet."""

    api: AsyncApi

    @abstractmethod
    async def snapshot(self, *, statuses: Sequence[str] = ()) -> Snapshot: ...

    @abstractmethod
    async def plan(
        self, sheet: Sheet, *, guard: Guard = NO_GUARD, snapshot: Snapshot | None = None
    ) -> Plan: ...

    @abstractmethod
    def read(self, sheet: pd.DataFrame, *, known_statuses: Collection[str] = ()) -> Sheet: ...

    @show_keywords(GuardKeywords)
    async def edit(
        self,
        pet_id: int,
        *,
        name: str | None = None,
        status: str | None = None,
        category: str | Category | None = None,
        tags: str | Iterable[str | Tag] | None = None,
        photo_urls: str | Iterable[str] | None = None,
        seen: Pet | None = None,
        guard: Guard = NO_GUARD,
        snapshot: Snapshot | None = None,
        **limits: Unpack[GuardKeywords],
    ) -> Plan:
        """Return the plan that changes this one pet, for `apply`. Sends only GET requests.

        A field that is None stays as it is; an empty text or list empties it. `tags` and
        `photo_urls` are lists, or text as in a cell of a sheet. `seen` is the pet as it was when
        the change was decided: later changes by other users stay, and a field that both the edit
        and another user changed is a conflict. With a `snapshot`, petsync does not read the whole
        store again; it always reads the pet itself again.

        Raises NotFoundError if the pet does not exist, and FindingsError for a value that is an
        error in a sheet too.
        """
        (number,) = arguments.pet_ids(pet_id)
        guard = guard_from(limits, guard, function="edit")
        values = _collect_fields(name, status, category, tags, photo_urls)
        base = _base(number, seen, self.api.session.base_url)
        url = self.api.session.base_url
        given = None if snapshot is None else arguments.checked_snapshot(snapshot, url)
        current = await self.api.get_pet_by_id(number)
        known = _with_pet(await self.snapshot() if given is None else given, current)
        sheet = self.read(_frame(number, values), known_statuses=_statuses(known))
        _check_values(sheet)
        sheet = replace(sheet, source=f"edit of pet {number}", base=base)
        return _strip_addresses(await self.plan(sheet, guard=guard, snapshot=known))


def _collect_fields(
    name: str | None,
    status: str | None,
    category: str | Category | None,
    tags: str | Iterable[str | Tag] | None,
    photo_urls: str | Iterable[str] | None,
) -> dict[str, Any]:
    """Return the wanted values, by column."""
    values = {
        "name": _check_text("name", name),
        "status": _check_text("status", status),
        "tags": _items(tags),
        "photo_urls": _items(photo_urls),
    }
    if isinstance(category, Category):
        return {**values, "category": category.name, "category_id": category.id}
    text = _check_text("category", category)
    return {**values, "category": CLEARED if text == "" else text}


def _check_text(column: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise SettingsError(f"{column} is {value!r}; it must be a text")


def _items(value: str | Iterable[Any] | None) -> str | list[Any] | None:
    return value if value is None or isinstance(value, str) else list(value)


def _frame(pet_id: int, values: Mapping[str, Any]) -> pd.DataFrame:
    """Return a DataFrame of one row with every column: a missing column would count as lost."""
    row = {column: values.get(column) for column in COLUMNS} | {"id": pet_id, "action": "update"}
    return pd.DataFrame([row], dtype=object)


def _base(pet_id: int, seen: Pet | None, store: str) -> Base | None:
    if seen is None:
        return None
    if not isinstance(seen, Pet) or seen.id != pet_id:
        raise SettingsError(
            f"the argument `seen` is not pet {pet_id}",
            hint="Give the pet as store.api.get_pet_by_id returns it.",
        )
    taken_at = datetime.now(UTC).isoformat(timespec="microseconds")
    return Base(frame=frame_from_pets([seen]), store=store, taken_at=taken_at)


def _with_pet(snapshot: Snapshot, pet: Pet) -> Snapshot:
    """Return the snapshot with the current pet instead of the one that was read before."""
    others = snapshot.frame[snapshot.frame["id"] != pet.id]
    frame = pd.concat([others, frame_from_pets([pet])], ignore_index=True)
    return replace(snapshot, frame=frame.sort_values("id", kind="stable", ignore_index=True))


def _statuses(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(unique_texts(snapshot.frame, "status"))


def _check_values(sheet: Sheet) -> None:
    """Raise FindingsError for a value with an error."""
    for each in sheet.problems:
        if each.severity == "error":
            value = "" if each.value in ("", CLEAR) else f"{each.value[:60]!r}: "
            raise FindingsError(f"{each.column}: {value}{each.problem}", hint=each.suggestion)


def _strip_addresses(plan: Plan) -> Plan:
    """Return the plan without cell addresses, which only apply to a sheet, and without notes about
    other pets.
    """

    def replace_source(each: Any, **more: Any) -> Any:
        return msgspec.structs.replace(each, source=_EDIT_SOURCE, **more)

    return msgspec.structs.replace(
        plan,
        places={},
        notes=tuple(note for note in plan.notes if _OTHERS_NOTE not in note),
        changes=tuple(map(replace_source, plan.changes)),
        conflicts=tuple(
            replace_source(
                each, problem=each.problem.replace("since the export", "since it was read")
            )
            for each in plan.conflicts
        ),
    )


# ImageUploads: the part of AsyncStore for images.


class ImageUploads:
    """Inspects and uploads images in bulk."""

    _images: StoreImages

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
        keep_metadata: bool = False,
        max_side: int | None = None,
        max_bytes: int = PictureOptions().max_bytes,
        max_pixels: int = PictureOptions().max_pixels,
        again: bool = False,
        on_progress: Callable[[ScanProgress], None] | None = None,
    ) -> Pictures:
        """Return the images that `upload` would send. Sends only GET requests.

        These are the images in the folder `source`, found by their names, or those that the
        `column` of a sheet names. Each is decoded completely, and its pet is looked up. In a
        folder, a name must match a `pattern` of {id}, {n} and *, such as `{id}_{n}`. Paths in a
        sheet are relative to its folder, or to `folder`. `metadata` is for every image for which
        neither the `metadata_column` nor metadata.csv in the folder has a text.

        Embedded metadata (place, time, camera, comments) is removed unless `keep_metadata` is set.
        `max_side` (pixels) reduces larger images; `max_bytes` and `max_pixels` are limits. Images
        that an earlier run uploaded are not uploaded again, unless `again` is set. Raises
        SheetError if folder, sheet or column cannot be read, SettingsError for invalid options, and
        ApiError if the store does not answer.
        """
        options = PictureOptions(
            keep_metadata=keep_metadata,
            max_side=max_side,
            max_bytes=max_bytes,
            max_pixels=max_pixels,
            again=again,
        )
        if column is not None:
            return await self._images.of_sheet(
                await self._images.sheet(source, {"tab": tab, "encoding": encoding}),
                options,
                column=column,
                folder=folder,
                metadata_column=metadata_column,
                metadata=metadata,
                on_progress=on_progress,
            )
        return await self._images.of_folder(
            Path(
                arguments.folder_of(
                    source,
                    tab=tab,
                    encoding=encoding,
                    folder=folder,
                    metadata_column=metadata_column,
                )
            ),
            options,
            pattern=pattern,
            recursive=recursive,
            metadata=metadata,
            on_progress=on_progress,
        )

    async def pictures_of(
        self,
        pet_id: int,
        files: str | Path | Iterable[str | Path],
        *,
        metadata: str | None = None,
        keep_metadata: bool = False,
        max_side: int | None = None,
        max_bytes: int = PictureOptions().max_bytes,
        max_pixels: int = PictureOptions().max_pixels,
        again: bool = False,
        on_progress: Callable[[ScanProgress], None] | None = None,
    ) -> Pictures:
        """Return the images that `upload` would send to one pet.

        The images are these files in the given order; their names do not matter. `row` of a picture
        or problem is the index of its file. The options are those of `pictures`.
        """
        (number,) = arguments.pet_ids(pet_id)
        options = PictureOptions(
            keep_metadata=keep_metadata,
            max_side=max_side,
            max_bytes=max_bytes,
            max_pixels=max_pixels,
            again=again,
        )
        paths = [files] if isinstance(files, str | Path) else files
        return await self._images.of_files(
            number, map(Path, paths), options, metadata=metadata, on_progress=on_progress
        )

    async def upload(
        self,
        pictures: Pictures,
        *,
        concurrency: int = 4,
        rate: float | None = None,
        settle: float | None = None,
        on_progress: Callable[[UploadProgress], None] | None = None,
        on_file: Callable[[FileProgress], None] | None = None,
        cancelling: UploadCanceller | None = None,
    ) -> UploadReport:
        """Upload the images, and return the outcome of every file.

        Images of one pet are sent one after the other, those of `concurrency` pets at the same
        time. The journal records the run, so no later run uploads the same image again. `settle` is
        the number of seconds to wait before an upload that got no response and added no photo is
        sent again; by default the timeout. `on_progress` is called for all images together,
        `on_file` for each; `cancelling` names images to leave out.

        Raises LockedError before it sends anything, and InterruptedRunError with the `report` so
        far if the run was stopped; the same folder or sheet, read and uploaded again, completes it.
        """
        arguments.checked_pictures(pictures)
        settle_seconds = self._images.settings.timeout if settle is None else settle
        options = UploadOptions(concurrency=concurrency, settle=settle_seconds)
        # ApplyOptions checks the rate.
        checked_rate = ApplyOptions(rate=rate).rate
        return await self._images.upload(
            pictures, options, checked_rate, on_progress, on_file, cancelling
        )

    async def photo(self, url: str) -> bytes:
        """Return the content of a photo below the service's base URL.

        Raises InvalidInputError for any other URL, without a request, and ApiError if the service
        does not return the photo.
        """
        return await self._images.photo(url)

    def serves(self, url: str) -> bool:
        """Return true if `photo` can read the URL: it is below the service's base URL."""
        return self._images.serves(url)


# Read: a file, a DataFrame or a sheet, with a store's options.


def _read(sheet: Sheet | pd.DataFrame | str | Path, options: ReadOptions) -> Sheet:
    """Return the sheet as read with the options. Raises SheetError if it cannot be read."""
    if isinstance(sheet, Sheet):
        if options.corrections:
            return _read_again(sheet, options)
        known = options.known_statuses
        return sheet.with_statuses(known) if known else sheet
    if isinstance(sheet, pd.DataFrame):
        if options.corrections:
            raise SheetError(
                "a DataFrame has no file, so corrections do not apply to it",
                hint="Change the DataFrame itself.",
            )
        return sheets.sheet_from_frame(
            sheet,
            mapping=options.mapping,
            defaults=options.defaults,
            statuses=options.statuses,
            known_statuses=options.known_statuses,
        )
    if not isinstance(sheet, str | Path):
        raise SheetError(
            f"a {type(sheet).__name__} is not a sheet",
            hint="Give the path of a file, a DataFrame, or the result of read_sheet.",
        )
    return sheets.read_file(sheet, options)


def _read_again(sheet: Sheet, options: ReadOptions) -> Sheet:
    """Return the sheet, read again from its file with further corrections.

    Raises SheetError if the file has changed.
    """
    earlier = {each.address: each.after for each in sheet.corrections}
    new = sheets.read_file(
        sheet.source,
        msgspec.structs.replace(
            options,
            tab=sheet.tab or None,
            mapping={},
            defaults=sheet.mapping,
            corrections={**earlier, **options.corrections},
            encoding=sheet.encoding or None,
        ),
    )
    if new.digest != sheet.digest:
        raise SheetError(
            f"{sheet.source}: the file has changed since it was read", hint="Read it again."
        )
    return new


# SignInMethods: the part of AsyncStore that signs in and out. PendingSignIn is for synchronous
# code.


Keep = Literal["memory", "keyring"]


def build_sign_in_service(session: Session, settings: Settings) -> SignInService:
    """Return the sign-in service of the session, from the settings."""
    authority = Authority(
        session.base_url,
        auth=settings.auth,
        allow_http=settings.allow_http,
        timeout=settings.timeout,
    )
    return SignInService(session, authority, CredentialStore(settings.state, session.base_url))


class SignInMethods:
    """Signs in and out, and reads the account."""

    _sign_in_service: SignInService
    settings: Settings

    async def sign_in(self, credentials: Credentials, *, keep: Keep = "memory") -> Account:
        """Use these credentials of `petsync.auth` from now on, if the service accepts them.

        `keep="keyring"` stores them for other processes with the same state folder. Raises
        AuthError if the service refuses them, SettingsError if the service does not offer this
        sign-in or the keyring cannot be used, and ApiError if the service does not answer; the
        former credentials then stay.
        """
        self.settings.require_confirmed()
        return await self._sign_in_service.sign_in(credentials, keep)

    async def begin_sign_in(
        self,
        *,
        scopes: str | Sequence[str] = (READ, WRITE),
        client_id: str | None = None,
        implicit: bool = False,
        listen: bool = True,
        keep: Keep = "memory",
    ) -> AsyncPendingSignIn:
        """Return a sign-in that waits for the user in a browser: open its `url`.

        It uses a code with PKCE; `implicit=True` is for a service that offers only the implicit
        grant. `listen=False` is for a browser on another machine: then pass the final URL in the
        browser to `paste`. Raises SettingsError if the service does not offer this kind of sign-in,
        or does not provide a sign-in address.
        """
        self.settings.require_confirmed()
        question = make_sign_in_request(scopes, client_id, implicit=implicit, listen=listen)
        return await self._sign_in_service.begin(question, keep)

    async def who(self) -> Account:
        """Return the account at the service: who is signed in, with which permissions.

        Sends requests that change nothing. Raises AuthError if the service no longer accepts the
        sign-in.
        """
        return await self._sign_in_service.who()

    async def sign_out(self) -> Account:
        """Delete the sign-in, in the keyring too; return an account without a sign-in, whose
        `problem` has notices for the user. The service revokes it first, if it supports that.
        PETSYNC_TOKEN and token files stay.
        """
        return await self._sign_in_service.sign_out()


class PendingSignIn:
    """A sign-in that waits for the user in a browser.

    Open `url`, then `wait` for the browser, or `paste` the final URL in the browser.
    """

    def __init__(self, aio: AsyncPendingSignIn, loop: LoopThread) -> None:
        self.aio = aio
        self._loop = loop

    @property
    def url(self) -> str:
        """The URL to open in a browser."""
        return self.aio.url

    @property
    def is_listening(self) -> bool:
        """True if petsync listens for the browser's redirect."""
        return self.aio.is_listening

    @property
    def is_open(self) -> bool:
        """True if no response for this sign-in has arrived yet: another attempt may succeed."""
        return self.aio.is_open

    def wait(self, timeout: float = 300.0) -> Account:
        """Wait up to `timeout` seconds for the browser's redirect, and return the account.

        Raises AuthError if the sign-in is refused, or on a timeout.
        """
        return self._loop.run(self.aio.wait(timeout))

    def paste(self, text: str | Secret) -> Account:
        """Return the account for the final URL in the browser.

        An implicit sign-in also accepts the token alone. Raises AuthError and SettingsError, which
        do not show the text.
        """
        text = text if isinstance(text, Secret) else Secret(str(text))
        return self._loop.run(self.aio.paste(text))

    def close(self) -> None:
        """End the sign-in."""
        self._loop.run(self.aio.close())

    def __repr__(self) -> str:
        return repr(self.aio)


# AsyncStore: one service, asynchronous.


class AsyncStore(ImageUploads, PetEdits, SignInMethods):
    """One service, with asynchronous methods: an AsyncStore loads pets, makes and applies plans,
    and has the service's eight operations as `api`.
    """

    def __init__(self, session: Session, settings: Settings) -> None:
        self.api = AsyncApi(session)
        self.settings = settings
        self._session = session
        self._runs = Runs(self.api, settings.state)
        self._sign_in_service = build_sign_in_service(session, settings)
        self._images = StoreImages(self.api, settings, self.read, self.snapshot)

    async def find_by_status(self, *statuses: str) -> pd.DataFrame:
        """Return the pets with one of the statuses, by default with one of the profile's."""
        return await loaders.find_by_status(self.api, self._statuses(statuses))

    async def find_by_tags(self, *tags: str) -> pd.DataFrame:
        """Return the pets with at least one of the tags, each once."""
        return await loaders.find_by_tags(self.api, tags)

    async def snapshot(self, *, statuses: Sequence[str] = ()) -> Snapshot:
        """Return the store's pets now: the result of all status queries, sorted by id.

        If the query of a status fails, the status is in `coverage.failed`, and its pets are
        missing.
        """
        queried = (statuses,) if isinstance(statuses, str) else statuses
        return await loaders.snapshot(self.api, self._statuses(queried))

    async def look_up(
        self, ids: Iterable[int], *, on_progress: Callable[[Lookups], None] | None = None
    ) -> dict[int, Found]:
        """Return what getPetById returns for each id, for pets of any status.

        The value is the pet, None if the store has no such pet, or a FailedLookup. Raises ApiError
        if the store does not answer at all.
        """
        return await look_up(self.api, ids, on_progress=on_progress)

    @show_keywords(PlanKeywords, PlanOptions)
    async def plan(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        *,
        strict: bool = False,
        guard: Guard = NO_GUARD,
        snapshot: Snapshot | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
        **options: Unpack[PlanKeywords],
    ) -> Plan:
        """Return the plan that brings the store into agreement with the sheet.

        Sends only GET requests. `sheet` is a Sheet, a file or a DataFrame with the canonical
        columns; a missing value in it changes nothing. A limit is a number of pets or a share, such
        as `max_delete=25` or `max_update="10%"`; `guard` has all limits as one value.

        An exported sheet contains a base, the store's values at the time of the export: a cell that
        has not been edited since then changes nothing. If the sheet and the store changed a field
        to different values, the plan lists a conflict, and the store's value stays unless an option
        sends the sheet's. Raises PlanError if the base cannot be used, GuardError if an export has
        lost its ids or the header of a column, and FindingsError if `strict` and the sheet has
        findings.

        petsync looks up the ids that the snapshot lacks; `on_progress` gets their number.
        """
        request = plan_options_from(options, guard)
        compared = await self._compare_for(request[0], sheet, snapshot, strict, on_progress)
        return compared.plan(*request, profile=self._session.profile, created=_now())

    @show_keywords(PlanKeywords, PlanOptions)
    async def why(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        pet_id: int | Iterable[int],
        *,
        strict: bool = False,
        guard: Guard = NO_GUARD,
        snapshot: Snapshot | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
        **options: Unpack[PlanKeywords],
    ) -> Explanations:
        """Explain what `plan` with these arguments does with the pet, or with each of several.

        For each row about the pet, or once if no row is about it, the result has the values of
        export, sheet and store, the decision, and the rules. Raises the same errors as `plan`.
        """
        request = plan_options_from(options, guard, function="why")
        ids = arguments.pet_ids(pet_id)
        compared = await self._compare_for(request[0], sheet, snapshot, strict, on_progress, ids)
        plan = compared.plan(*request, profile=self._session.profile, created=_now())
        return compared.why(plan, ids)

    @show_keywords(ApplyKeywords, ApplyOptions, settle=None)
    async def apply(
        self,
        plan: Plan,
        *,
        progress: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **options: Unpack[ApplyKeywords],
    ) -> Report:
        """Apply the plan, and return the outcome of every row.

        The journal in the state folder records each request before it is sent, and its outcome. A
        terminal and a notebook show a progress bar, unless `progress=False` or `on_progress` is
        set.

        Raises GuardError, StalePlanError or LockedError before it sends anything, and
        InterruptedRunError with the `report` so far if the run was stopped; `resume` continues it.
        """
        check_keywords(options, "apply")
        chosen = ApplyOptions.of({"settle": self.settings.timeout}, options)
        arguments.checked_plan(plan).require_ok()
        self.check(plan)
        if plan.needs_count:
            # The size of the store is never taken from a plan file.
            statuses = plan.coverage.statuses or self._statuses(())
            plan.require_ok(len(await self.snapshot(statuses=statuses)))
        with self._bar(len(plan.changes), "Applying", progress, on_progress) as step:
            return await self._runs.apply(plan, chosen, step)

    @show_keywords(ApplyKeywords)
    async def resume(
        self,
        run_id: str = "",
        *,
        progress: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **options: Unpack[ApplyKeywords],
    ) -> Report:
        """Finish a run that was stopped or killed, or that has failures; return its whole report.

        petsync determines from the store the outcome of requests without a response, sends what is
        left, and repeats nothing that is done. `run_id` is the id of a run or its unique beginning;
        "" is this store's newest run that is not complete. An option that is not given keeps its
        value from the run. Raises PlanError if there is no such run, LockedError while it is
        working, and the same errors as `apply`.
        """
        check_keywords(options, "resume")
        past, plan = self.to_resume(arguments.run_name(run_id))
        with self._bar(len(plan.changes), "Resuming", progress, on_progress) as step:
            return await self._runs.resume(past, plan, options, step)

    async def settle(self, run_id: str) -> Report:
        """Determine the outcomes of all changes that a stopped run started, and give up the rest.

        Sends only GET requests; a new plan makes the remaining changes. Returns the report of the
        whole run. Raises the same errors as `resume`.
        """
        past, plan = self.to_resume(run_id)
        return await self._runs.resume(past, plan, {}, None, gives_up=True)

    def to_resume(self, run_id: str = "", *, startable: bool = False) -> tuple[PastRun, Plan]:
        """Return the run that `resume` would finish, and its plan.

        Raises PlanError if there is none. With `startable`, also raises PlanError if the run was
        undone and has no unknown outcomes, and LockedError while a run is working.
        """
        return self._runs.to_resume(run_id, startable=startable)

    def find_unfinished(self, sheet: str | Path) -> PastRun | None:
        """Return the newest run of this sheet on this store if it was stopped, can be resumed and
        is not undone; else None.
        """
        return self._runs.find_unfinished(os.path.realpath(sheet))

    @show_keywords(GuardKeywords)
    async def undo(
        self,
        run_id: str = "",
        *,
        guard: Guard = NO_GUARD,
        on_progress: Callable[[Lookups], None] | None = None,
        **limits: Unpack[GuardKeywords],
    ) -> Plan:
        """Return the plan that restores what a run changed, for `apply`. Sends only GET requests.

        A pet that was changed since the run stays as it is, and is listed as a conflict. `run_id`
        is the id of a run or its unique beginning; "" is this store's newest run that changed
        something and is not completely undone. Raises PlanError if there is none, LockedError while
        it is working. `on_progress` gets the number of pets that petsync looks up because no query
        lists them.
        """
        name = arguments.run_name(run_id)
        guard = guard_from(limits, guard, function="undo")
        return await UndoPlanner(self.api, self.history).plan(name, guard, on_progress)

    async def runs(self) -> pd.DataFrame:
        """Return the runs on this store, the newest first.

        The columns are id, kind, state, started (UTC), seconds, source, total, applied, unchanged,
        not sent, conflict, needs fixing, failed, unknown, undoes.
        """
        return runs_frame(await asyncio.to_thread(self.history.runs, self._session.base_url))

    async def run(self, run_id: str) -> Report:
        """Return the outcome of every row of a run, as far as the run has progressed.

        Raises PlanError if this store has no such run, and for uploads.
        """
        return await asyncio.to_thread(
            self.history.report, arguments.run_name(run_id), self._session.base_url
        )

    @property
    def history(self) -> History:
        """The history of runs in the journal."""
        return History(self.settings.state)

    def check(self, plan: Plan) -> None:
        """Raise PlanError if the plan is for another store, or StalePlanError if it was applied.

        `apply` makes the same check.
        """
        if plan.store != self._session.base_url:
            raise PlanError(
                f"the plan is for {plan.store}, and this store is {self._session.base_url}",
                hint="Apply it there, or make a plan for this store.",
            )
        self._runs.check_unused(plan)

    @show_keywords(ReadKeywords)
    def read(
        self, sheet: Sheet | pd.DataFrame | str | Path, **options: Unpack[ReadKeywords]
    ) -> Sheet:
        """Return the sheet as this store reads it.

        The statuses of the store's profile and `known_statuses` count as known. `mapping`, or else
        petsync.toml, maps headers to columns. `encoding` and `corrections` (texts by cell address)
        are as in `read_sheet`. With corrections, a Sheet is read again from its file, with the
        corrections that it already has. Raises SheetError if the sheet cannot be read, if the file
        has changed, and for corrections of a DataFrame.
        """
        reject_unknown(options, "read", ReadKeywords)
        own = {"statuses": self._session.profile.statuses, "defaults": self.settings.columns}
        return _read(sheet, ReadOptions.of({**options, **own}))

    async def close(self, *, for_good: bool = False) -> None:
        """Close the connections, and end the sign-ins that wait for the user.

        The next request opens new connections or, with `for_good`, is an error.
        """
        await self._sign_in_service.close()
        await self._session.close(for_good=for_good)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def compare(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        snapshot: Snapshot | None = None,
        *,
        strict: bool = False,
        on_progress: Callable[[Lookups], None] | None = None,
        ids: Iterable[int] = (),
        with_undone: bool = False,
    ) -> SheetComparison:
        """Return the store and the sheet, with all look-ups that a plan needs, and look-ups of
        `ids`.

        If an undo removed the pet of a row without an id, the row counts as new, unless
        `with_undone` is set. Raises the same errors as `plan`.
        """
        now = (
            await self.snapshot()
            if snapshot is None
            else arguments.checked_snapshot(snapshot, self._session.base_url)
        )
        read = await asyncio.to_thread(self.read, sheet, known_statuses=_statuses_of(now))
        if strict:
            arguments.no_findings(read)
        reused_ids = self.history.read_reused(self._session.base_url) if read.named_ids else {}
        suspect_rows = find_suspects(read, reused_ids, now.frame)
        if "id" in read.rows:
            removed = await asyncio.to_thread(self.history.read_removed, self._session.base_url)
            suspect_rows = find_rows_of_removed_pets(read, removed, now.frame) | suspect_rows
        suspect_ids = {each.reused.pet.id or 0 for each in suspect_rows.values()}
        suspect_ids |= reused_ids.keys() & read.blocked_ids
        matches = await asyncio.to_thread(
            self._matches, read, now, suspect_ids, with_undone=with_undone
        )
        record_ids = {each.pet_id for match in matches.values() for each in match.records}
        ids_to_look_up = [*ids, *sorted(each for each in record_ids if each is not None)]
        unproved = find_unproved_ids(read.frame, now.frame)
        renumbered = self.history.read_renumbered(self._session.base_url) if unproved else {}
        ids_to_look_up += [renumbered[each].pet_id for each in unproved if each in renumbered]
        missing = [*unproved, *find_absent_ids(ids_to_look_up, now.frame)]
        found = await look_up(self.api, missing, on_progress=on_progress)
        base = read.base
        # Load the uploads after the snapshot, because an upload is in the journal before the store
        # has its photo.
        uploads = await asyncio.to_thread(self._images.load_uploads, read)
        is_gone = base is not None and any(found.get(each) is None for each in base.ids & {*found})
        undone = self.history.read_undone_adds(self._session.base_url) if is_gone else {}
        restored = {} if base is None else self.history.read_restored(self._session.base_url)
        now = await self._with_vocabulary(now, read, found)
        return SheetComparison(
            now,
            read,
            found,
            uploads,
            matches,
            undone,
            restored,
            renumbered,
            suspects=suspect_rows,
        )

    async def _compare_for(
        self,
        options: PlanOptions,
        sheet: Sheet | pd.DataFrame | str | Path,
        snapshot: Snapshot | None,
        strict: bool,
        on_progress: Callable[[Lookups], None] | None,
        ids: Iterable[int] = (),
    ) -> SheetComparison:
        """Return the comparison for a plan with these options. Raises the same errors as `plan`."""
        compared = await self.compare(
            sheet, snapshot, strict=strict, on_progress=on_progress, ids=ids
        )
        compared = await self._continue_base(compared)
        if not options.two_way:
            must_have_columns(compared.sheet, matches_rows=bool(options.match_on))
        return compared

    async def _continue_base(self, compared: SheetComparison) -> SheetComparison:
        """Return the comparison, with the sheet's base updated by the changes that the sheet's runs
        sent.
        """
        base = compared.sheet.base
        if base is None or base.store != self._session.base_url:
            return compared
        sheet = await asyncio.to_thread(
            self.history.continue_base, compared.sheet, compared.snapshot.frame
        )
        return replace(compared, sheet=sheet)

    async def _with_vocabulary(self, now: Snapshot, sheet: Sheet, found: FoundPets) -> Snapshot:
        """Return the snapshot, with a snapshot of the whole store if one is needed.

        It is needed if the snapshot covers a part of the store and the sheet names categories or
        tags that this part does not have.
        """
        failed = {each.query for each in now.coverage.failed}
        usual = {*self._session.profile.statuses}
        if now.whole is not None:
            return now
        if usual <= {*now.coverage.statuses, *failed}:
            return replace(now, whole=now) if usual & failed else now
        others = frame_from_pets([each for each in found.values() if isinstance(each, Pet)])
        known = pd.concat([now.frame, others]) if len(others) else now.frame
        is_incomplete = await asyncio.to_thread(has_unknown_names, sheet, known)
        return replace(now, whole=await self.snapshot()) if is_incomplete else now

    def _matches(
        self, sheet: Sheet, now: Snapshot, suspect_ids: Collection[int], *, with_undone: bool
    ) -> Mapping[int, Match]:
        """Return, by row, how the rows without an id match the records of earlier runs on this
        store.
        """
        if not slots_of(sheet):
            return {}
        url = self._session.base_url
        records = self.history.read_row_records(url, sheet, with_undone=with_undone)
        found = identify(sheet, records, now.frame, suspect_ids)
        # A row that got an id and lacks it now is from a backup, or is another row at that
        # position.
        edited = {row: m for row, m in found.items() if m.kind == "certain" and m.is_edited}
        if not edited:
            return found
        id_writers = self.history.find_id_writers({each.record.run_id for each in edited.values()})
        without_id = {row: m for row, m in edited.items() if m.record.run_id in id_writers}
        assigned_ids = {m.record.pet_id for m in without_id.values() if m.record.pet_id is not None}
        return {
            **found,
            **mark_doubts(without_id, sheet, Vocabulary(now.frame), may_lack=assigned_ids),
        }

    def _bar(
        self, total: int, text: str, progress: bool | None, on_progress: OnProgress
    ) -> AbstractContextManager[OnProgress]:
        # Import the bar only to show it.
        from petsync.report.progress import run_bar

        traffic = self._session.traffic
        return run_bar(total, text=text, show=progress, traffic=traffic, on_step=on_progress)

    def _statuses(self, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(given) or self._session.profile.statuses


def _statuses_of(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(unique_texts(snapshot.frame, "status"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
