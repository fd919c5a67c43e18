"""Sending notices: what arrives, what is kept until it can be sent, and what is never logged."""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from receiver import PATH, Receiver, build_report, configured

from petsync.config.model import Configuration, Notify
from petsync.reconcile import notify
from petsync.reconcile.notify import Notifier
from petsync.reconcile.send import deliver_by_apprise, find_problem
from petsync.settings import Secret

NOW = datetime(2026, 11, 21, 2, tzinfo=UTC)
ON = ("failure", "violation", "recovery", "waiting")


def config_of(folder: Path, *urls: Secret) -> Configuration:
    """Return a configuration that sends to these addresses, without a digest."""
    return configured(folder, notify=Notify(urls=urls, on=ON))


def test_what_could_not_be_sent_is_sent_later(tmp_path: Path) -> None:
    """A notice that could not be sent is reported without the address, and is sent with its date
    after the next round.
    """
    with Receiver() as receiver:
        config = config_of(tmp_path, receiver.url)
        receiver.status = 500
        (message,) = Notifier(config).notify([build_report("error")], NOW)
        assert message.startswith(
            "the notice 'petsync: catalogue failed (error)' could not be sent"
        )
        assert "address 1: " in message
        assert "500" in message
        assert "Hu5h" not in message
        receiver.status = 200
        assert Notifier(config).notify([build_report("error")], NOW + timedelta(hours=1)) == ()
        assert Notifier(config).notify([build_report("error")], NOW + timedelta(hours=2)) == ()
    (notice,) = receiver.got
    assert "This is from 2026-11-21 02:00 +0000" in notice["message"]


def test_an_address_that_accepted_it_is_not_notified_twice(tmp_path: Path) -> None:
    """Of two addresses, only the one that failed is tried again."""
    with Receiver() as well, Receiver() as ill:
        config = config_of(tmp_path, well.url, ill.url)
        ill.status = 503
        (message,) = Notifier(config).notify([build_report("error")], NOW)
        assert "address 2" in message
        ill.status = 200
        assert Notifier(config).notify([build_report("done")], NOW) == ()
    assert well.titles == ill.titles
    assert len(well.titles) == 2


def test_a_receiver_that_hangs_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that hangs is dropped after a time limit, with the reason."""
    monkeypatch.setattr(notify, "_EACH", 0.2)
    with Receiver() as receiver:
        receiver.hangs = True
        rounds = [build_report("error", job=name) for name in ("a", "b", "c")]
        messages = Notifier(config_of(tmp_path, receiver.url)).notify(rounds, NOW)
        assert len(messages) == 3
        assert "no answer within" in messages[0]


def test_a_redirection_is_no_arrival(tmp_path: Path) -> None:
    """A redirect does not count as delivery and is not followed, because a client follows it with a
    GET request.
    """
    with Receiver() as elsewhere, Receiver() as receiver:
        receiver.status = 302
        receiver.headers = {"Location": elsewhere.url.reveal().replace("json:", "http:")}
        assert Notifier(config_of(tmp_path, receiver.url)).notify([build_report("error")], NOW)
    assert elsewhere.paths == []


def test_no_address_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No log shows the host or the path of an address, even at the lowest level of apprise, urllib3
    and requests.
    """
    for name in ("apprise", "urllib3", "urllib3.connectionpool", "requests", "petsync"):
        caplog.set_level(1, logger=name)
    caplog.set_level(1)
    for status in (200, 404):
        with Receiver() as receiver:
            receiver.status = status
            Notifier(config_of(tmp_path, receiver.url)).notify(
                [build_report("error", job="x")], NOW
            )
            port = receiver.url.reveal().split(":")[2].split("/")[0]
        assert receiver.paths == [PATH]
        (tmp_path / "state/reconcile/notify.json").unlink()
    broken = Secret("nonsense://Hu5h-T0ken:secretword@host/path-of-the-hook")
    (message,) = Notifier(config_of(tmp_path, broken)).notify([build_report("error")], NOW)
    assert "apprise does not support" in message
    output = caplog.text + "".join(capfd.readouterr()) + message
    for piece in ("Hu5h", "path-of-the-hook", "secretword", f":{port}", "T0ken"):
        assert piece not in output
    logging.getLogger("apprise").warning("heard again")
    assert "heard again" in caplog.text


def test_without_apprise_the_way_to_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without apprise the result names the extra to install, and the notice is kept until apprise
    is available.
    """
    with Receiver() as receiver:
        config = config_of(tmp_path, receiver.url)
        monkeypatch.setitem(sys.modules, "apprise", None)
        (message,) = Notifier(config).notify([build_report("error")], NOW)
        assert "pip install 'petsync[notify]'" in message
        monkeypatch.undo()
        assert Notifier(config).notify([build_report("error")], NOW) == ()
    assert len(receiver.got) == 1


def test_an_address_can_be_checked_beforehand() -> None:
    """An address can be checked without sending and without showing it."""
    assert find_problem(Secret("json://127.0.0.1:9/x")) == ""
    assert "Hu5h" not in find_problem(Secret("Hu5h no address"))
    assert find_problem(Secret("Hu5h no address"))


def test_two_processes_at_once_tell_each_thing_once(tmp_path: Path) -> None:
    """Jobs that end at the same moment wait for each other: each notice is sent once and none is
    lost.
    """
    with Receiver() as receiver:
        config = config_of(tmp_path, receiver.url)
        work = [
            threading.Thread(
                target=lambda n=n: Notifier(config).notify(
                    [build_report("error", job=f"job{n}")], NOW
                )
            )
            for n in range(4)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert sorted(receiver.titles) == [f"petsync: job{n} failed (error)" for n in range(4)]


def test_a_damaged_memory_is_set_aside(tmp_path: Path) -> None:
    """A damaged memory file is renamed, and notices are sent again rather than lost."""
    with Receiver() as receiver:
        config = config_of(tmp_path, receiver.url)
        Notifier(config).notify([build_report("error")], NOW)
        kept = tmp_path / "state/reconcile/notify.json"
        kept.write_bytes(kept.read_bytes()[:40])
        assert Notifier(config).notify([build_report("error")], NOW) == ()
    assert len(receiver.got) == 2
    assert kept.with_suffix(".damaged").exists()


def test_a_damaged_memory_that_cannot_be_moved_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a damaged memory file cannot be renamed, the log says so, and notices are sent again."""
    kept = tmp_path / "state/reconcile/notify.json"
    with Receiver() as receiver:
        config = config_of(tmp_path, receiver.url)
        Notifier(config).notify([build_report("error")], NOW)
        kept.write_bytes(b"{")
        kept.with_suffix(".damaged").mkdir()
        assert Notifier(config).notify([build_report("error")], NOW) == ()
    assert len(receiver.got) == 2
    assert f"{kept} is damaged, and cannot be moved: Is a directory" in caplog.text
    assert "was moved" not in caplog.text


def test_failed_notices_change_no_round(tmp_path: Path) -> None:
    """A state folder that is a file, or a plug-in that raises, is reported as a sentence in the
    result.
    """
    (tmp_path / "state").write_text("a file")
    config = config_of(tmp_path, Secret("json://127.0.0.1:9/Hu5h"))
    (message,) = Notifier(config).notify([build_report("error")], NOW)
    assert message.startswith("no notices were sent for these rounds")
    assert "Hu5h" not in message

    def broken(*_: object) -> str:
        raise RuntimeError("json://127.0.0.1:9/Hu5h")

    other = replace(config, state=tmp_path / "other")
    (message,) = Notifier(other, deliver=broken).notify([build_report("error")], NOW)
    assert message == "no notices were sent for these rounds: RuntimeError while they were prepared"


def test_a_notice_that_is_stopped_changes_no_round_and_is_sent_later(tmp_path: Path) -> None:
    """An interrupt while a notice is sent ends only the sending: the rounds have their results, and
    the notice is sent after a later round.
    """

    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    with Receiver() as receiver:
        config = config_of(tmp_path, receiver.url)
        (message,) = Notifier(config, deliver=interrupt).notify([build_report("error")], NOW)
        assert message.startswith("petsync was stopped while it sent notices")
        assert Notifier(config).notify([build_report("error")], NOW + timedelta(hours=1)) == ()
    assert receiver.titles == ["petsync: catalogue failed (error)"]


def test_notices_are_given_up_after_a_week_and_beyond_a_hundred(tmp_path: Path) -> None:
    """Notices that cannot be sent are dropped after a week or above a hundred, and each dropped one
    is reported.
    """
    config = config_of(tmp_path, Secret("json://hooks.example/x"))

    def refused(*_: object) -> str:
        return "refused"

    notifier = Notifier(config, deliver=refused)
    rounds = [build_report("error", job=f"job{n}") for n in range(103)]
    messages = notifier.notify(rounds, NOW)
    assert sum("is dropped: too many notices are waiting" in each for each in messages) == 3
    later = notifier.notify([build_report("error", job="job0")], NOW + timedelta(days=8))
    assert sum("could not be sent for a week" in each for each in later) == 99


def test_no_notice_without_an_address(tmp_path: Path) -> None:
    """Without addresses nothing is created, kept or loaded."""
    assert Notifier(configured(tmp_path)).notify([build_report("error")], NOW) == ()
    assert not (tmp_path / "state").exists()


def test_what_hangs_is_reported_in_seconds() -> None:
    """An address that does not answer is dropped after the time limit, with the reason."""
    with Receiver() as receiver:
        receiver.hangs = True
        assert (
            deliver_by_apprise(receiver.url, "digest", "t", "b", 0.1)
            == "no answer within 0 seconds"
        )
