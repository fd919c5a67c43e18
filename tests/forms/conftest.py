"""What holds for every form: nothing that happens in a callback goes unseen."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from petsync.errors import PetsyncError
from petsync.widgets.form import Form


@pytest.fixture
def faults() -> list[BaseException]:
    """What forms met that is no PetsyncError; a test that means to see one clears it."""
    return []


@pytest.fixture(autouse=True)
def no_fault_in_a_callback(
    faults: list[BaseException], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fails the test where a callback, or what it began, raised anything but a PetsyncError."""
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
