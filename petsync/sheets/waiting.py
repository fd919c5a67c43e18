"""What a sheet is to take, as a file: JSON for its owner alone, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from petsync._file import write_private
from petsync.diff.intake import Inbound
from petsync.errors import PlanError

__all__ = ["load_edits", "save_edits"]


def save_edits(inbound: Inbound, path: str | Path) -> Path:
    """The path of the file, of mode 0600. Raises PlanError where it cannot be written."""
    try:
        write_private(Path(path), inbound.to_json())
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
    return Path(path)


def load_edits(path: str | Path) -> Inbound:
    """What a file of `save_edits` holds. Raises PlanError where there is none, or it was changed by
    hand.
    """
    source = Path(path)
    try:
        return Inbound.from_json(source.read_bytes(), str(source))
    except OSError as error:
        raise PlanError(
            f"{source} cannot be read: {error.strerror}",
            hint="Let the next `petsync reconcile` make it again.",
        ) from None
