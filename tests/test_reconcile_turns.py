"""Two jobs that send to one store, with different state folders."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Thread

import pytest

from petsync.errors import LockedError
from petsync.reconcile.locks import find_store_lock, lock_store
from petsync.reconcile.state import StatePaths


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a temporary folder for each test."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))


def test_two_state_folders_take_turns_on_one_machine(tmp_path: Path) -> None:
    """Jobs with different state folders on one machine take turns at a store, however its address
    is written; another store is independent.
    """
    one, other = StatePaths(tmp_path / "one"), StatePaths(tmp_path / "other")
    with lock_store(one, "https://shop.example/v2"):
        with pytest.raises(
            LockedError, match=r"other jobs have been using HTTPS://Shop\.example:443/v2/"
        ):
            lock_store(other, "HTTPS://Shop.example:443/v2/", timeout_s=0.0).__enter__()
        with lock_store(other, "https://shop.example/v3", timeout_s=0.0):
            pass
    with lock_store(other, "https://shop.example/v2", timeout_s=0.0):
        pass


def test_the_second_one_goes_on_when_the_first_is_done(tmp_path: Path) -> None:
    """A second job waits for the first one and then goes on."""
    done: list[str] = []

    def second() -> None:
        with lock_store(StatePaths(tmp_path / "other"), "https://shop.example", timeout_s=60.0):
            done.append("second")

    waiting = Thread(target=second)
    with lock_store(StatePaths(tmp_path / "one"), "https://shop.example"):
        waiting.start()
        done.append("first")
    waiting.join(60.0)
    assert done == ["first", "second"]


def test_the_lock_is_in_a_folder_of_this_user_alone(tmp_path: Path) -> None:
    """The lock is in a folder that only its owner can use."""
    path = find_store_lock("https://shop.example")
    assert path is not None
    assert path.parent.parent == tmp_path / "temp"
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trick", ["link", "open", "file", "none"])
def test_a_folder_that_others_may_have_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trick: str
) -> None:
    """A folder that another user may have made, such as a link or one with open permissions, is not
    used, and only the state folder's lock applies.
    """
    path = find_store_lock("https://shop.example")
    assert path is not None
    folder = path.parent
    folder.rmdir()
    if trick == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    elif trick == "open":
        folder.mkdir()
        folder.chmod(0o777)
    elif trick == "file":
        folder.touch()
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with lock_store(StatePaths(tmp_path / "one"), "https://shop.example", timeout_s=0.0):
        assert not [*tmp_path.glob("elsewhere/*")]
    assert "take turns only if they share a state folder" in caplog.text
