"""A webhook receiver, and builders of rounds and configurations for notices."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from petsync.config.model import Configuration, Job, Notify, Reports
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Difference, Round
from petsync.reconcile.context import CODES
from petsync.settings import Secret

PATH = "/Hu5h-T0ken/path-of-the-hook"


class Receiver:
    """A server that keeps each posted body, answers `status`, and may hang until `let_go`."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.status, self.headers = 200, dict[str, str]()
        self.hangs, self.let_go = False, threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> Secret:
        """The address in the form of apprise, with a secret path."""
        return Secret(f"json://127.0.0.1:{self._server.server_port}{PATH}")

    @property
    def titles(self) -> list[str]:
        """The titles of the received notices."""
        return [each["title"] for each in self.got]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Keep the body and answer."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.hangs:
                    receiver.let_go.wait(120)
                receiver.paths.append(self.path)
                if receiver.status == 200:
                    receiver.got.append(json.loads(body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        return Handler


def build_report(
    status: str = "done", *opens: Difference, job: str = "catalogue", part: str = "", **facts: Any
) -> RoundReport:
    """Return the report of a round with this status and these open differences."""
    kinds = [each.kind for each in opens]
    given = {
        "exit_code": CODES[status],
        "started": datetime.now(UTC).isoformat(),
        "conflicts": kinds.count("conflict"),
        "findings": kinds.count("finding"),
        "unexplained": kinds.count("drift"),
        "failed": kinds.count("failed"),
        **facts,
    }
    identity = f"20261121-{job}-{part}"
    return RoundReport(
        round=Round(id=identity, job=job, part=part, status=status, **given), open=opens
    )


def conflict(pet_id: int, **facts: Any) -> Difference:
    """Return a conflict over a pet's status."""
    given = {"problem": "both sides changed it", "fields": ("status",), "name": f"Pet {pet_id}"}
    return Difference(kind="conflict", pet_id=pet_id, **{**given, **facts})


def configured(folder: Path, *jobs: Job, **options: Any) -> Configuration:
    """Return a configuration with these jobs, `notify` and other options."""
    return Configuration(
        path=folder / "petsync.toml",
        state=folder / "state",
        jobs=jobs or (Job(name="catalogue", mode="two-way", url="https://shop.example/v2"),),
        report=Reports(folder=folder / "reports"),
        **{"notify": Notify(), **options},
    )
