"""Spans for OpenTelemetry: one for each round, with a child for each step."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.errors import SettingsError
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.watcher import Step
from petsync.redact import Redactor

__all__ = ["Traced", "traced"]

log = logging.getLogger(__name__)

_NUMBERS = (
    "rows",
    "pets",
    "drift",
    "applied",
    "conflicts",
    "findings",
    "failed",
    "notes",
    "left",
    "resumed",
)
_PATIENCE = 10.0
"""Seconds that a collector has to take the last spans."""


class Traced:
    """The watcher that makes spans of rounds and steps. Of errors they get type and message."""

    def __init__(self, tracer: Any, clean: Redactor) -> None:
        self._tracer, self._clean = tracer, clean
        self._span: Any = None
        self._context: Any = None

    def began(self, begun: Round) -> None:
        """Begin the round's span."""
        from opentelemetry.trace import set_span_in_context

        self._span = self._tracer.start_span("petsync.round", attributes=self._about(begun))
        self._context = set_span_in_context(self._span)

    @contextmanager
    def step(self, begun: Round, name: Step) -> Iterator[None]:
        """A span around the step, in the round's."""
        with self._tracer.start_as_current_span(
            f"petsync.{name}",
            context=self._context,
            attributes=self._about(begun),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                self._failed(span, type(error).__name__, str(error))
                raise

    def ended(self, told: RoundReport) -> None:
        """End the round's span with how it ended; one that never began is a span of its own."""
        if self._span is None:
            self.began(told.round)
        span, self._span = self._span, None  # what follows, such as the notices, is its child too
        round_ = told.round
        span.set_attribute("petsync.status", round_.status)
        span.set_attribute("petsync.exit_code", round_.exit_code)
        span.set_attribute("petsync.runs", round_.runs)
        for name in _NUMBERS:
            span.set_attribute(f"petsync.{name}", getattr(round_, name))
        if round_.exit_code in (1, 7, 64) or round_.failed:
            self._failed(span, round_.status, round_.problem)
        span.end()

    def _about(self, round_: Round) -> dict[str, Any]:
        return {
            "petsync.job": self._clean(round_.job),
            "petsync.part": self._clean(round_.part),
            "petsync.round": self._clean(round_.id),
            "petsync.mode": round_.mode,
            "petsync.dry_run": round_.dry_run,
        }

    def _failed(self, span: Any, kind: str, message: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        said = self._clean(message)
        span.add_event("exception", {"exception.type": kind, "exception.message": said})
        span.set_status(Status(StatusCode.ERROR, said))


@contextmanager
def traced(config: Configuration, exporter: Any = None) -> Iterator[Traced]:
    """Meanwhile spans go to `exporter`, or to where the standard OTEL_* variables say.

    Raises SettingsError where OpenTelemetry is not installed.
    """
    try:
        provider = _provider(exporter)
    except ImportError:
        raise SettingsError(
            "[tracing] needs OpenTelemetry, which is not installed",
            hint="pip install 'petsync[tracing]'",
        ) from None
    clean = Redactor((*config.secrets, *config.notify.urls))
    try:
        yield Traced(provider.get_tracer("petsync"), clean)
    finally:
        _shut(provider)


def _provider(exporter: Any) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before this name.
    resource = Resource({"service.name": "petsync"}).merge(Resource.create())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _shut(provider: Any) -> None:
    """Have the last spans sent; a collector that does not answer holds nothing up for long."""
    thread = threading.Thread(target=provider.shutdown, name="spans", daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if thread.is_alive():
        log.warning("the last spans were not taken within %d seconds", _PATIENCE)
