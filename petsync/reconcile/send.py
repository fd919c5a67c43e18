"""Send notices with apprise; no other module uses apprise."""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from petsync._extras import needs_extra
from petsync.config.model import Event
from petsync.errors import MissingExtraError
from petsync.redact import Redactor
from petsync.settings import Secret

__all__ = ["deliver_by_apprise", "find_problem"]


_TYPES: Mapping[Event, str] = {
    "failure": "failure",
    "violation": "warning",
    "recovery": "success",
    "waiting": "warning",
    "digest": "info",
}
_UNKNOWN = "apprise does not support this address"
_PIECES = re.compile(r"[/:@?&=#\s]+")
_MIN_SECRET = 5
"""The number of characters from which a part of an address is masked."""


def find_problem(address: Secret) -> str:
    """Return the reason why apprise cannot send to this address, "" if it can. The reason does not
    contain the address. Also returns "" if apprise is not installed.
    """
    try:
        return "" if _service(address) else _UNKNOWN
    except MissingExtraError:
        return ""


def deliver_by_apprise(address: Secret, event: Event, title: str, body: str, timeout: float) -> str:
    """Send a notice. Return "" if it was accepted, else the reason, without the address.

    Takes up to `timeout` seconds. A call that hangs continues in a daemon thread.
    """
    try:
        service = _service(address)
    except MissingExtraError as error:
        return f"{error.problem}: {error.cure}"
    if not service:
        return _UNKNOWN
    problems: list[str] = []
    notice = (service, address, event, title, body, problems)
    thread = threading.Thread(target=_deliver, args=notice, name="notice", daemon=True)
    thread.start()
    thread.join(timeout)
    return problems[0] if problems else f"no answer within {timeout:.0f} seconds"


def _deliver(
    service: Any, address: Secret, event: Event, title: str, body: str, problems: list[str]
) -> None:
    """Append the result of the delivery to `problems`.

    Raises nothing: the text of an error may contain the address.
    """
    try:
        problems.append(_send_one(service, address, event, title, body))
    except Exception as error:  # noqa: BLE001 - a plugin can raise anything
        problems.append(f"{type(error).__name__} in apprise")


def _send_one(service: Any, address: Secret, event: Event, title: str, body: str) -> str:
    import apprise

    warnings_seen: list[str] = []
    with _quiet(warnings_seen.append):
        is_sent = service.notify(
            title=title,
            body=body,
            notify_type=apprise.NotifyType(_TYPES[event]),
            body_format=apprise.NotifyFormat.TEXT,
        )
    return "" if is_sent else _find_reason(warnings_seen, address)


def _service(address: Secret) -> Any:
    """Return apprise's object for an address, falsy if apprise does not support the address.

    Raises MissingExtraError if apprise is not installed.
    """
    with needs_extra("notify", "sending notices"), _quiet(), warnings.catch_warnings():
        # This imports all plugins, some of which use deprecated features.
        warnings.simplefilter("ignore")
        import apprise

        # No redirects: a POST could become a GET, and status 200 would not mean that it was sent.
        asset = apprise.AppriseAsset(
            app_id="petsync",
            app_desc="petsync",
            app_url="",
            image_url_mask="",
            image_url_logo="",
            http_redirects=False,
            async_mode=False,
            service_timeout=0,
        )
        service = apprise.Apprise(asset=asset)
        service.add(address.reveal())
    return service


def _find_reason(warnings_seen: list[str], address: Secret) -> str:
    """Return apprise's last warning, with the address and its longer parts masked; a standard text
    if there is no warning.
    """
    text = address.reveal()
    pieces = {piece for piece in _PIECES.split(text) if len(piece) >= _MIN_SECRET}
    redacted = Redactor((address, *map(Secret, pieces)))
    return redacted(warnings_seen[-1])[:200] if warnings_seen else "it was not accepted"


class _LogCapture(logging.Filter):
    """A filter that drops all records of one thread, and passes apprise's warnings to
    `on_warning`.
    """

    def __init__(self, on_warning: Callable[[str], None]) -> None:
        super().__init__()
        self._on_warning, self._thread = on_warning, threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return true if the record is from another thread."""
        if threading.get_ident() != self._thread:
            return True
        if record.levelno >= logging.WARNING and record.name == "apprise":
            self._on_warning(record.getMessage())
        return False


@contextmanager
def _quiet(on_warning: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Suppress the log records of this thread inside the context, from all libraries.

    Apprise, requests and urllib3 log addresses, or parts of them, at DEBUG and in warnings.
    """
    manager = logging.Logger.manager
    loggers = [each for each in manager.loggerDict.values() if isinstance(each, logging.Logger)]
    # Apprise may create its loggers only now.
    first = [logging.getLogger(name) for name in ("", "apprise")]
    mine, capture = [*first, *loggers], _LogCapture(on_warning)
    for logger in mine:
        logger.addFilter(capture)
    try:
        yield
    finally:
        for logger in mine:
            logger.removeFilter(capture)
