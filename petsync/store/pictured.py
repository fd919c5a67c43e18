"""Pictured: the part of AsyncStore that is about images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from petsync.apply.options import ApplyOptions
from petsync.apply.pictures.cancelling import Cancelling
from petsync.apply.pictures.engine import UploadOptions
from petsync.apply.pictures.pattern import USUAL
from petsync.diff import arguments
from petsync.diff.pictures import Looked, PictureOptions, Pictures
from petsync.diff.uploaded import FileProgress, Uploaded, Uploading
from petsync.store.pictures import Gallery
from petsync.table.sheet import Sheet

__all__ = ["Pictured"]


class Pictured:
    """Images of pets, looked at and uploaded in bulk."""

    _gallery: Gallery

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
        pattern: str | Iterable[str] = USUAL,
        recursive: bool = False,
        strip_exif: bool = False,
        max_side: int | None = None,
        max_bytes: int = PictureOptions().max_bytes,
        max_pixels: int = PictureOptions().max_pixels,
        again: bool = False,
        on_progress: Callable[[Looked], None] | None = None,
    ) -> Pictures:
        """The images that `upload` would send: those in the folder `source`, by their names, or
        those that a sheet's `column` names. Each is decoded whole, and its pet looked up. Sends
        nothing that changes anything.

        In a folder a name fits a `pattern` of {id}, {n} and *, such as `{id}_{n}`; paths in a sheet
        are relative to its folder, or to `folder`. `metadata` goes with every image that neither
        the `metadata_column` nor metadata.csv in the folder says something of.

        `strip_exif` leaves out what cameras wrote, `max_side` (pixels) scales down, `max_bytes` and
        `max_pixels` are limits. What an earlier run uploaded is left alone but with `again`.
        Raises SheetError where folder, sheet or column cannot be read, SettingsError for options
        that cannot be used, and ApiError where the store cannot be asked.
        """
        options = PictureOptions(
            strip_exif=strip_exif,
            max_side=max_side,
            max_bytes=max_bytes,
            max_pixels=max_pixels,
            again=again,
        )
        if column is not None:
            return await self._gallery.of_sheet(
                await self._gallery.sheet(source, tab, encoding),
                options,
                column=column,
                folder=folder,
                metadata_column=metadata_column,
                metadata=metadata,
                on_progress=on_progress,
            )
        return await self._gallery.of_folder(
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
        strip_exif: bool = False,
        max_side: int | None = None,
        max_bytes: int = PictureOptions().max_bytes,
        max_pixels: int = PictureOptions().max_pixels,
        again: bool = False,
        on_progress: Callable[[Looked], None] | None = None,
    ) -> Pictures:
        """The images that `upload` would send to one pet: these files, in their order, whatever
        they are called; `row` of a picture or problem is its file's place, from 0. Else as
        `pictures`.
        """
        (number,) = arguments.pet_ids(pet_id)
        options = PictureOptions(
            strip_exif=strip_exif,
            max_side=max_side,
            max_bytes=max_bytes,
            max_pixels=max_pixels,
            again=again,
        )
        paths = [files] if isinstance(files, str | Path) else files
        return await self._gallery.of_files(
            number, map(Path, paths), options, metadata=metadata, on_progress=on_progress
        )

    async def upload(
        self,
        pictures: Pictures,
        *,
        concurrency: int = 4,
        rate: float | None = None,
        settle: float | None = None,
        on_progress: Callable[[Uploading], None] | None = None,
        on_file: Callable[[FileProgress], None] | None = None,
        cancelling: Cancelling | None = None,
    ) -> Uploaded:
        """Upload the images and report on every file. A pet's images go one after the other, in
        their order, those of `concurrency` pets at a time. The run is journalled: what it uploaded
        is not uploaded again by another one.

        `settle` is how many seconds an earlier upload, that got no answer and added no photo, may
        still arrive, before it is sent again (the timeout). `on_progress` is told of all images
        together, `on_file` of each; those that are named to `cancelling` are left out.

        Raises LockedError before anything is sent, and InterruptedRunError with the `report` so far
        where the run was stopped: the same folder or sheet, looked at and uploaded again, does
        the rest.
        """
        arguments.checked_pictures(pictures)
        late = self._gallery.settings.timeout if settle is None else settle
        options = UploadOptions(concurrency=concurrency, settle=late)
        # The rate is judged as that of any run is.
        given = ApplyOptions(rate=rate).rate
        return await self._gallery.upload(
            pictures, options, given, on_progress, on_file, cancelling
        )

    async def photo(self, url: str) -> bytes:
        """The content of a photo that this service itself serves, below its base URL. Raises
        InvalidInputError for any other address, without asking anybody, and ApiError where the
        service does not give it.
        """
        return await self._gallery.photo(url)

    def serves(self, url: str) -> bool:
        """Whether a photo's address is this service's own, so that `photo` asks for it."""
        return self._gallery.serves(url)
