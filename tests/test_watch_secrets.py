"""No output of a reconciliation with all monitoring enabled contains a secret."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from receiver import Receiver
from scenarios import PETS, Scenario, changed
from scripted import ScriptedServer, answer
from test_redact import ENCODINGS
from test_secrets import forms_of

import petsync as ps
from petsync.client.probe import examine
from petsync.config.model import Configuration, Log, Metrics, Notify
from petsync.reconcile import run
from petsync.reconcile.observe import trace
from petsync.sandbox import Sandbox
from petsync.settings import Secret

pytestmark = pytest.mark.slow

HOOK = "Hu5h-T0ken"


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_is_left_behind(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither the store's token nor the receiver's address is in the state folder, reports, log,
    metrics, spans or output of good rounds, failed rounds and failed notifications.
    """
    caplog.set_level(1)
    spans: list[ReadableSpan] = []
    with Sandbox(pets=PETS) as box, Receiver() as receiver:
        scenario = Scenario(box, tmp_path)
        scenario.write(changed(PETS, 3, name="Rex"))
        token, wrong = Secret(box.token()), Secret(box.token(expires_in=-1))
        for each in (token, wrong):
            receiver.status = 200 if each is token else 500
            config = watched(scenario, each, receiver, form)
            exporter = InMemorySpanExporter()
            with trace(config, exporter) as watcher:
                code = run(config, watchers=[watcher]).exit_code
            spans += exporter.get_finished_spans()
            assert code == (0 if each is token else 1)
    result = [caplog.text, *capfd.readouterr(), *(span.to_json() for span in spans)]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    result += [path.read_bytes().decode("utf-8", "replace") for path in files]
    assert {"x.log", "petsync.prom", "notify.json", "latest.json"} < {path.name for path in files}
    assert [each.name for each in spans].count("petsync.round") == 2
    for secret in (token.reveal(), wrong.reveal(), HOOK):
        found = [text for text in result for piece in forms_of(secret) if piece in text]
        assert not found


TOKEN, PASSWORD = "t0ken/+=~9f8e7d6c5b4a", "pr0xy&/+<s3cret>"


@pytest.mark.parametrize("media", ["application/json", "text/plain"])
def test_no_encoding_of_a_secret_is_left_behind(
    media: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token and a proxy's password that the service repeats in any encoding are in no error, log,
    notice, report, history, span or file.
    """
    caplog.set_level(1)
    monkeypatch.setenv("https_proxy", f"http://me:{quote(PASSWORD, safe='')}@proxy.example:3128")
    token = Secret(TOKEN)
    texts: list[str] = []
    with Sandbox(pets=PETS) as box, Receiver() as receiver, ScriptedServer(b"") as server:
        scenario = Scenario(box, tmp_path, {"url": server.url})
        scenario.write()
        for name, encode in ENCODINGS.items():
            message = f"{name}: got {encode(TOKEN)} by {encode(PASSWORD)}!"
            body = json.dumps({"message": message}) if media.endswith("json") else message
            server._script = [answer(400, body.encode(), content_type=media)]
            exporter = InMemorySpanExporter()
            with trace(config := watched(scenario, token, receiver, "json"), exporter) as watcher:
                assert run(config, watchers=[watcher]).exit_code == 1
            texts += [span.to_json() for span in exporter.get_finished_spans()]
            auth = ps.auth.bearer(token)
            with ps.connect(server.url, auth=auth, state=scenario.state, environ={}) as store:
                for act in (store.snapshot, partial(store.api.get_pet_by_id, 1)):
                    with pytest.raises(ps.errors.ApiError) as failed:
                        act()
                    texts += [str(failed.value), repr(failed.value), failed.value.service_message]
                texts.append(str(store._loop.run(examine(store.api.aio.session))))
    texts += [caplog.text, *capfd.readouterr()]
    texts += [path.read_bytes().decode("utf-8", "replace") for path in tmp_path.rglob("*.*")]
    assert sum(name in text for name in ENCODINGS for text in texts) > len(ENCODINGS)
    everything = "\n".join(texts)
    for secret in (TOKEN, PASSWORD):
        forms = {encode(secret).strip("'\"=\n") for encode in ENCODINGS.values()}
        assert not [form for form in forms if form in everything]
        assert not [form for form in forms if form[:16].lower() in everything.lower()]


def watched(scenario: Scenario, token: Secret, receiver: Receiver, form: str) -> Configuration:
    """Return the job's configuration with all monitoring and notifications enabled."""
    return replace(
        scenario.config(scenario.job(token=token, allow_http=("127.0.0.1",))),
        notify=Notify(urls=(receiver.url,)),
        log=Log(format=form, level="debug", file=scenario.folder / "x.log"),  # type: ignore[arg-type]
        metrics=Metrics(textfile=scenario.folder / "petsync.prom"),
        secrets=(token, receiver.url),
    )
