"""The one place that knows apprise: a text goes to an address, or why it did not."""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from petsync.reconcile.config.model import Event
from petsync.redact import Redactor
from petsync.settings import Secret

__all__ = ["MISSING", "deliver_by_apprise", "lack_of"]


MISSING = "notices need apprise, which is not installed: pip install 'petsync[notify]'"
_TYPES: Mapping[Event, str] = {
    "failure": "failure",
    "violation": "warning",
    "recovery": "success",
    "waiting": "warning",
    "digest": "info",
}
_UNKNOWN = "apprise does not know an address of this form"
_PIECES = re.compile(r"[/:@?&=#\s]+")
_KNOWN = 5


def lack_of(address: Secret) -> str:
    """Why apprise can send nothing to this address, without telling it; "" if it can, or if
    apprise is not there to ask.
    """
    try:
        return "" if _service(address) else _UNKNOWN
    except ImportError:
        return ""


def deliver_by_apprise(address: Secret, event: Event, title: str, body: str, timeout: float) -> str:
    """Send it; "" if it arrived, else why it did not, without the address.

    Takes at most `timeout` seconds: what hangs is left to a thread that ends with the process.
    """
    try:
        service = _service(address)
    except ImportError:
        return MISSING
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
    """What `deliver` answers, put into `problems`. No error leaves it, for its text may hold the
    address.
    """
    try:
        problems.append(_send_one(service, address, event, title, body))
    except Exception as error:  # noqa: BLE001 - a plugin can raise anything, and nobody must fall
        problems.append(f"{type(error).__name__} in apprise")


def _send_one(service: Any, address: Secret, event: Event, title: str, body: str) -> str:
    import apprise

    heard: list[str] = []
    with _quiet(heard.append):
        is_sent = service.notify(
            title=title,
            body=body,
            notify_type=apprise.NotifyType(_TYPES[event]),
            body_format=apprise.NotifyFormat.TEXT,
        )
    return "" if is_sent else _why(heard, address)


def _service(address: Secret) -> Any:
    """Where apprise sends to: falsy if it cannot tell from the address. Raises ImportError."""
    with _quiet(), warnings.catch_warnings():
        # Its plugins, all of which load here, use what newer Pythons advise against.
        warnings.simplefilter("ignore")
        import apprise

        # Redirected, a POST becomes a GET, which answers 200 and tells nobody anything.
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


def _why(heard: list[str], address: Secret) -> str:
    """What apprise warned of, with whatever may be a piece of the address taken out."""
    text = address.reveal()
    pieces = {piece for piece in _PIECES.split(text) if len(piece) >= _KNOWN}
    redacted = Redactor((address, *map(Secret, pieces)))
    return redacted(heard[-1])[:200] if heard else "it was not taken"


class _LogCapture(logging.Filter):
    """Drops what one thread logs, and hands its warnings to `hear`."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__()
        self._hear, self._thread = hear, threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it comes from another thread."""
        if threading.get_ident() != self._thread:
            return True
        if record.levelno >= logging.WARNING and record.name == "apprise":
            self._hear(record.getMessage())
        return False


@contextmanager
def _quiet(hear: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Meanwhile nothing that this thread does in other libraries is logged anywhere: apprise,
    requests and urllib3 tell addresses, in whole or in pieces, at DEBUG and in warnings.
    """
    manager = logging.Logger.manager
    loggers = [each for each in manager.loggerDict.values() if isinstance(each, logging.Logger)]
    # Those of apprise may be made only now.
    first = [logging.getLogger(name) for name in ("", "apprise")]
    mine, deaf = [*first, *loggers], _LogCapture(hear)
    for logger in mine:
        logger.addFilter(deaf)
    try:
        yield
    finally:
        for logger in mine:
            logger.removeFilter(deaf)
