"""Fixtures of the form tests: an unexpected error in a callback fails the test."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from petsync.errors import PetsyncError
from petsync.widgets.form import Form


@pytest.fixture
def faults() -> list[BaseException]:
    """Return the list of errors in forms other than PetsyncError; a test that expects one clears
    it.
    """
    return []


@pytest.fixture(autouse=True)
def no_fault_in_a_callback(
    faults: list[BaseException], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail the test if a callback, or work that it started, raised anything but a PetsyncError."""
    tell = Form.fail

    def fail(form: Form, error: BaseException) -> None:
        if not isinstance(error, PetsyncError):
            faults.append(error)
        tell(form, error)

    monkeypatch.setattr(Form, "fail", fail)
    yield
    logged = [
        record.getMessage()
        for phase in ("setup", "call")
        for record in caplog.get_records(phase)  # type: ignore[arg-type]
        if record.name.startswith("petsync.widgets") and record.levelno >= logging.ERROR
    ]
    assert not faults, f"a form failed with {faults!r}"
    assert not logged
