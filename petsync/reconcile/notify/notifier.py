"""Notifier: after the rounds, people are told what they should know of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from filelock import Timeout

from petsync.diff.round_report import RoundReport
from petsync.errors import PetsyncError
from petsync.reconcile.config.model import Configuration
from petsync.reconcile.notify.decide import Notice, decide
from petsync.reconcile.notify.digest import day_due, digest_lines, digested
from petsync.reconcile.notify.memory import Memory, Pending, kept, save
from petsync.reconcile.notify.outbox import Deliver, mark_of, put, sent
from petsync.reconcile.notify.send import deliver as by_apprise
from petsync.reconcile.notify.templates import DEFAULTS, filled
from petsync.reconcile.notify.words import values_of
from petsync.redact import Redactor
from petsync.table.visible import visible

__all__ = ["Notifier"]

log = logging.getLogger(__name__)

_TITLE, _BODY = 160, 3_500
"""Characters; what is longer is cut."""
_STARS = "\ue000"
"""For a secret, as long as stars would be rewritten as markup."""


class Notifier:
    """Tells people, as `[notify]` says, and remembers in the state folder what it told."""

    def __init__(self, config: Configuration, *, deliver: Deliver | None = None) -> None:
        self._config, self._notify = config, config.notify
        secrets = (*config.secrets, *config.notify.urls)
        self._clean, self._marked = Redactor(secrets), Redactor(secrets, stars=_STARS)
        self._deliver = deliver or by_apprise

    def told(self, rounds: Sequence[RoundReport], now: datetime) -> tuple[str, ...]:
        """Decide what these rounds, the latest ones, give to tell, and send it. `now` has a zone.

        Returns what could not be sent, a sentence each. Nothing is raised: that people cannot be
        told must not change what a round was.
        """
        real = [told for told in rounds if not told.round.dry_run]
        if not self._notify.urls or not real:
            return ()
        try:
            return self._told(real, now)
        except Timeout:
            why = "another process has been telling people for minutes"
        except (OSError, PetsyncError) as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - a surprise here must not change a round
            why = f"{type(error).__name__} while it was made"
        said = self._clean(f"people could not be told of these rounds: {why}")
        log.error("%s", said)
        return (said,)

    def _told(self, rounds: Sequence[RoundReport], now: datetime) -> tuple[str, ...]:
        with kept(self._config.state, now) as (memory, path):
            notices = decide(memory, rounds, now.timestamp(), self._notify.remind)
            pending = [self._pending(notice, now) for notice in notices if self._wants(notice)]
            given_up = put(memory, [*pending, *self._digest(memory, rounds[-1], now)])
            # Told twice is better than never: it is kept before anything is sent.
            save(memory, path)
            if not memory.outbox:
                return given_up
            said = (*given_up, *sent(memory, self._notify.urls, now, self._deliver))
            save(memory, path)
        return said

    def _wants(self, notice: Notice) -> bool:
        return notice.event in self._notify.on

    def _digest(self, memory: Memory, last: RoundReport, now: datetime) -> tuple[Pending, ...]:
        day = day_due(memory, self._notify.digest, now)
        if "digest" not in self._notify.on or not day:
            return ()
        lines = digest_lines(memory, self._config, now)
        digested(memory, day, now)
        notice = Notice(event="digest", name=last.round.job, told=last)
        return (self._pending(notice, now, "\n".join(lines)),)

    def _pending(self, notice: Notice, now: datetime, lines: str = "") -> Pending:
        title, body = self._notify.templates.get(notice.event) or DEFAULTS[notice.event]
        default_title, default_body = DEFAULTS[notice.event]
        values = {**values_of(notice, self._config, self._marked), "lines": lines}
        return Pending(
            event=notice.event,
            title=self._finished(filled(title or default_title, values), _TITLE, keep=""),
            body=self._finished(filled(body or default_body, values), _BODY, keep="\n"),
            made=now.timestamp(),
            to=tuple(dict.fromkeys(mark_of(address) for address in self._notify.urls)),
        )

    def _finished(self, text: str, most: int, *, keep: str) -> str:
        """The text without secrets and control characters, cut."""
        shown = visible(self._clean(text.strip()), keep=keep).replace(_STARS, "***")
        return shown if len(shown) <= most else f"{shown[: most - 6]} (cut)"
