"""petsync runs with reconciliation rounds: listed beside the runs, and drawn."""

from __future__ import annotations

from pathlib import Path

from commands import Shell, to
from round_samples import build_rounds

from petsync.reconcile.state import History
from petsync.sandbox import Sandbox


def _rounds(total: int = 3, job: str = "catalogue") -> None:
    history = History(Path(".petsync"))
    for each in build_rounds(total, job=job):
        history.append(each)


def test_rounds_are_listed_first(shell: Shell) -> None:
    """Rounds are listed first, the newest first, in 80 columns."""
    _rounds()
    done = shell("runs")
    lines = done.out.splitlines()
    assert done.code == 0
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[1:4]] == [
        "20261025-020000-0002",
        "20261024-020000-0001",
        "20261023-020000-0000",
    ]
    assert lines[-1] == "No runs are recorded."
    assert "and 2 more" in shell("runs", "--limit", "1").out


def test_json_has_rounds_where_there_are_any(shell: Shell) -> None:
    """--json lists the rounds, the newest first."""
    _rounds()
    output = shell("runs", "--json").json
    assert output["runs"] == []
    assert [each["started"][:10] for each in output["rounds"]] == [
        "2026-10-25",
        "2026-10-24",
        "2026-10-23",
    ]


def test_a_job_has_its_own_rounds_and_runs(shell: Shell, box: Sandbox) -> None:
    """--job omits runs of other origin; an unknown job is an error that names the known jobs."""
    _rounds(job="orders")
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    shell("apply", "pets.csv", *to(box), "--yes")
    output = shell("runs", "--job", "orders", "--json").json
    assert (len(output["rounds"]), output["runs"]) == (3, [])
    missing = shell("runs", "--job", "order")
    assert missing.code == 1
    assert "There are rounds of: orders." in missing.err


def test_the_history_is_a_page(shell: Shell, box: Sandbox) -> None:
    """--html shows the trends of the rounds, and the rounds and runs up to --limit."""
    _rounds(30)
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    run = shell("apply", "pets.csv", *to(box), "--yes", "--json").json["run_id"]
    done = shell("runs", "--html", "history.html")
    assert (done.code, "Saved history.html." in done.err) == (0, True)
    page = Path("history.html").read_text("utf-8")
    assert page.count("<figure") == 5
    assert run in page
    shell("runs", "--html", "history.html", "--limit", "10")
    assert "... and 20 more" in Path("history.html").read_text("utf-8")


def test_a_page_that_cannot_be_made_is_refused(shell: Shell) -> None:
    """A wrong extension, a missing folder or a run together with --html is a usage error."""
    assert shell("runs", "--html", "history.pdf").code == 64
    assert shell("runs", "--html", "nowhere/history.html").code == 64
    assert shell("runs", "20261121", "--html", "history.html").code == 64
    assert shell("runs", "--pet", "1", "--job", "orders").code == 64
