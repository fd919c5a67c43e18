"""Nothing that a reconciliation leaves behind, with all that watches it turned on, has a secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nightly import PETS, Night, changed
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from receiver import Receiver
from test_secrets import forms_of

from petsync.reconcile import run
from petsync.reconcile.config.model import Configuration, Log, Metrics, Notify
from petsync.reconcile.watch.tracing import traced
from petsync.sandbox import Sandbox
from petsync.settings import Secret

HOOK = "Hu5h-T0ken"


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_is_left_behind(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither the store's token nor the receiver's address: not in state folder, reports, log,
    metrics, spans or on standard error, of rounds that are well, fail, and cannot be told.
    """
    caplog.set_level(1)
    spans: list[ReadableSpan] = []
    with Sandbox(pets=PETS) as box, Receiver() as receiver:
        night = Night(box, tmp_path)
        night.write(changed(PETS, 3, name="Rex"))
        token, wrong = Secret(box.token()), Secret(box.token(expires_in=-1))
        for each in (token, wrong):
            receiver.status = 200 if each is token else 500
            config = watched(night, each, receiver, form)
            exporter = InMemorySpanExporter()
            with traced(config, exporter) as watcher:
                code = run(config, watchers=[watcher]).exit_code
            spans += exporter.get_finished_spans()
            assert code == (0 if each is token else 1)
    told = [caplog.text, *capfd.readouterr(), *(span.to_json() for span in spans)]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    told += [path.read_bytes().decode("utf-8", "replace") for path in files]
    assert {"x.log", "petsync.prom", "notify.json", "latest.json"} < {path.name for path in files}
    assert [each.name for each in spans].count("petsync.round") == 2
    for secret in (token.reveal(), wrong.reveal(), HOOK):
        found = [text for text in told for piece in forms_of(secret) if piece in text]
        assert not found


def watched(night: Night, token: Secret, receiver: Receiver, form: str) -> Configuration:
    """The job's configuration with everything on that watches or tells."""
    return replace(
        night.config(night.job(token=token, allow_http=("127.0.0.1",))),
        notify=Notify(urls=(receiver.url,)),
        log=Log(format=form, level="debug", file=night.folder / "x.log"),  # type: ignore[arg-type]
        metrics=Metrics(textfile=night.folder / "petsync.prom"),
        secrets=(token, receiver.url),
    )
