"""Rounds that fail, are interrupted or killed, and the next round after them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import Double
from msgspec.structs import replace as replaced
from scenarios import PETS, Scenario, changed, kinds, read_pets

import petsync as ps
from petsync._display import quote
from petsync.config.model import Reports
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Round
from petsync.reconcile import run
from petsync.reconcile.context import Step, Watcher, in_terms_of_jobs
from petsync.reconcile.locks import lock_job
from petsync.reconcile.round import reconcile_jobs
from petsync.reconcile.state import History, StatePaths
from petsync.sandbox import Sandbox
from petsync.sandbox.tokens import SCOPES
from petsync.settings import Secret
from petsync.sheets.headers import mapping_hint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> Iterator[Scenario]:
    """Yield a store and a sheet that agree after one round."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    scenario = Scenario(_open_box, tmp_path, {"mode": "two-way", "timeout": 30.0})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    yield scenario
    _open_box.set_faults(None)


class Odd:
    """A value that is not text, which shows only when it is used."""

    def isascii(self) -> bool:
        """Raise an error that contains a secret."""
        raise ValueError("s3cr3t-word")


class Meddler(Double, of=Watcher):
    """A watcher that calls a function when a step begins."""

    def __init__(self, step: Step, do: object) -> None:
        self.when, self.do, self.ends = step, do, list[str]()

    def on_begin(self, round_: Round) -> None:
        """Do nothing."""

    @contextmanager
    def step(self, round_: Round, name: Step) -> Iterator[None]:
        """Call the function if this is the step."""
        if name == self.when and callable(self.do):
            self.do()
        yield

    def on_end(self, report: RoundReport) -> None:
        """Record the status of the round."""
        self.ends.append(report.round.status)


def test_a_job_that_is_at_work_is_left_alone(scenario: Scenario) -> None:
    """A job that already runs is left alone with exit code 6, and other jobs run."""
    other = scenario.job("other", mode="check")
    with lock_job(StatePaths(scenario.state), "catalogue"):
        rounds = reconcile_jobs(scenario.config(scenario.job(), other))
    assert [report.round.status for report in rounds] == ["locked", "in-sync"]
    assert rounds.exit_code == 6
    assert "another process" in rounds[0].round.problem


def test_a_query_that_fails_changes_nothing(scenario: Scenario) -> None:
    """A round whose query fails changes nothing, because pets that are not listed would seem to be
    gone.
    """
    scenario.write(changed(PETS, 1, name="Rex"))
    kept = {name: (scenario.state / name).read_bytes() for name in scenario.state_files()}
    scenario.box.set_faults("html=1,status=sold")
    report = scenario.run(delete_missing=True)
    assert (report.round.status, report.round.exit_code) == ("error", 1)
    assert "did not list" in report.round.problem
    assert scenario.store_pets()[1].name == "Pet 1"
    base = "reconcile/bases/catalogue.base"
    assert (scenario.state / base).read_bytes() == kept[base]


_CLIENT = 'client_id = "nightly"\nclient_secret = "${SHOP}"'


@pytest.mark.parametrize(
    ("keys", "auth", "problem", "hint"),
    [
        ('token = "${SHOP}"', "", "401", "signs in with its `token` (SHOP): correct it."),
        (
            'api_key = "${SHOP}"',
            "",
            "401",
            "a token is needed too. Job pets signs in with its `api_key` (SHOP): correct it.",
        ),
        (_CLIENT, "", "sign-in: the service does not recognise", "`client_secret` (SHOP): correct"),
        (
            _CLIENT,
            '[auth]\ntoken_url = "http://127.0.0.1:9/token"\n',
            "sign-in: http://127.0.0.1:9/token cannot be reached, so there is no token",
            "Check the address, and that the service is running",
        ),
    ],
)
def test_a_refused_sign_in_of_a_job_names_its_key(
    tmp_path: Path, keys: str, auth: str, problem: str, hint: str
) -> None:
    """If a store refuses the sign-in that a job has of its own, the hint names its key and its
    variable, not `petsync login`. If the token endpoint is down, the message begins with that.
    """
    (tmp_path / "pets.csv").write_text("id,name\n1,Rex\n", "utf-8")
    file = tmp_path / "petsync.toml"
    with Sandbox(pets=PETS) as box:
        job = f'[jobs.pets]\nmode = "push"\nsheet = "pets.csv"\n{keys}\n'
        file.write_text(f'url = "{box.url}"\n{auth}{job}', "utf-8")
        (report,) = run(file, environ={"SHOP": "wrong-secret"})
    assert problem in report.round.problem
    assert problem == "401" or report.round.problem.startswith(problem)
    assert hint in report.round.hint
    assert "login" not in report.round.hint
    assert "wrong-secret" not in report.round.problem + report.round.hint


def test_what_a_stopped_round_left_is_planned_again(tmp_path: Path) -> None:
    """After a stopped round the next one plans again, and sends no edit and no new row that was
    taken back meanwhile.
    """
    with Sandbox(pets=PETS) as box:
        reads, all_ = (Secret(box.token(scope)) for scope in ("read:pets", tuple(SCOPES)))
        scenario = Scenario(box, tmp_path, {"mode": "two-way", "concurrency": 1, "max_failures": 0})
        scenario.write()
        assert scenario.run(token=all_).round.status == "in-sync"
        sheet = scenario.sheet.read_bytes()
        new = ps.Pet(name="Neu", status="sold")
        scenario.write([*changed(changed(PETS, 1, name="Rex"), 2, name="Mia"), new])
        report = scenario.run(token=reads)
        assert (report.round.status, report.round.exit_code) == ("interrupted", 7)
        assert sorted(kinds(report)) == [("drift", 1), ("drift", 2), ("failed", None)]
        scenario.sheet.write_bytes(sheet)
        before = Counter(box.requests)
        report = scenario.run(token=all_)
        assert (report.round.resumed, report.round.status) == (1, "done")
        sent = Counter(box.requests) - before
        assert {*sent} <= {"findPetsByStatus", "getPetById"}
        assert scenario.store_pets() == {pet.id: pet for pet in PETS}
        assert scenario.run(token=all_).round.resumed == 0


def test_an_interrupt_ends_the_round_and_what_would_follow(scenario: Scenario) -> None:
    """An interrupt ends the round and the following jobs with exit code 7, and the history has the
    round.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    scenario.write(changed(PETS, 1, name="Rex"))
    jobs = scenario.config(scenario.job(), scenario.job("other", mode="check"))
    rounds = reconcile_jobs(jobs, watchers=[Meddler("snapshot", interrupt)])
    assert [report.round.status for report in rounds] == ["interrupted"]
    assert rounds.exit_code == 7
    assert History(scenario.state).rounds()[-1].status == "interrupted"
    assert scenario.run().round.status == "done"


def test_a_watcher_that_fails_changes_nothing(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    """A watcher that raises an error changes nothing in the round, and the log has the error."""

    def fail() -> None:
        raise ValueError("no")

    meddler = Meddler("plan", fail)
    assert scenario.run(watchers=[meddler]).round.status == "in-sync"
    assert meddler.ends == ["in-sync"]
    assert "Meddler failed" in caplog.text


def test_a_damaged_base_is_set_aside(scenario: Scenario) -> None:
    """A damaged base is renamed and the previous one is used, with a note; without that, the round
    is a first round.
    """
    base = scenario.state / "reconcile/bases/catalogue.base"
    base.write_bytes(base.read_bytes()[:-40])
    scenario.write(PETS[1:])
    scenario.run(delete_missing=True)
    report = scenario.run(delete_missing=True)
    assert 1 in scenario.store_pets() or report.round.status in ("done", "in-sync")
    base.write_bytes(b"no base")
    base.with_name("catalogue.base.previous").write_bytes(b"no base")
    report = scenario.run(delete_missing=True)
    assert "is damaged, and its records cannot be used: their first" in report.open[0].problem
    assert list(base.parent.glob("*.damaged-*"))
    assert scenario.run().round.notes <= 1


def test_an_edit_while_the_round_is_at_work_is_kept(scenario: Scenario) -> None:
    """A sheet that a person saves during a round stays unchanged, and the next round reads it."""
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    save = Meddler("write", lambda: scenario.write(changed(PETS, 1, name="Rex")))
    report = scenario.run(watchers=[save])
    assert report.round.status == "error"
    assert scenario.sheet_pets()[1].name == "Rex"
    assert scenario.run().round.status == "done"
    assert (scenario.sheet_pets()[2].name, scenario.store_pets()[1].name) == ("Mia", "Rex")


def test_a_folder_has_a_base_for_each_sheet(scenario: Scenario, tmp_path: Path) -> None:
    """Each sheet of a folder has its own round and base, and the rows of a pet in two sheets are
    held.
    """
    folder = tmp_path / "inbox"
    folder.mkdir()
    for name, pets in (("a.csv", PETS[:6]), ("b.csv", PETS[6:])):
        ps.write_sheet(ps.frame_from_pets(pets), folder / name, base=False)
    config = scenario.config(scenario.job("inbox", folder=folder, files="*.csv", sheet=None))
    assert [report.round.part for report in reconcile_jobs(config)] == ["a.csv", "b.csv"]
    ps.write_sheet(ps.frame_from_pets(PETS[1:6]), folder / "a.csv", base=False)
    ps.write_sheet(ps.frame_from_pets([PETS[0], *PETS[6:]]), folder / "b.csv", base=False)
    rounds = reconcile_jobs(config)
    assert [report.round.status for report in rounds] == ["in-sync", "in-sync"]
    ps.write_sheet(ps.frame_from_pets(PETS[:6]), folder / "a.csv", base=False)
    rounds = reconcile_jobs(config)
    assert [report.round.status for report in rounds] == ["findings", "findings"]
    assert [[(each.kind, each.pet_id) for each in report.open] for report in rounds] == [
        [("finding", 1)],
        [("finding", 1)],
    ]


def test_one_bad_job_keeps_no_other_from_running(scenario: Scenario, tmp_path: Path) -> None:
    """A job without a service, a folder or a sheet is an error, and the other jobs run."""
    jobs = [
        scenario.job("nowhere", url=""),
        scenario.job("empty", sheet=None, folder=tmp_path / "none"),
        scenario.job("gone", sheet=tmp_path / "none.csv"),
        scenario.job(),
    ]
    rounds = reconcile_jobs(scenario.config(*jobs))
    assert [report.round.status for report in rounds] == ["error", "error", "error", "in-sync"]
    assert rounds[0].round.exit_code == 64
    assert all(report.round.hint for report in rounds[:3])
    assert [report.job for report in History(scenario.state).rounds()][1:] == [
        "nowhere",
        "empty",
        "gone",
        "catalogue",
    ]


def test_a_state_folder_that_cannot_be_written_is_reported(
    scenario: Scenario, tmp_path: Path
) -> None:
    """A state folder that cannot be written is an error before anything is sent."""
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    scenario.write(changed(PETS, 1, name="Rex"))
    (report,) = reconcile_jobs(replace(scenario.config(), state=blocked / "state"))
    assert report.round.status == "error"
    assert scenario.store_pets()[1].name == "Pet 1"


def test_overlapping_rounds_never_run_at_once(scenario: Scenario) -> None:
    """A second round of a job never runs beside the first: its status is locked."""
    statuses = list[str]()

    def again() -> None:
        thread = threading.Thread(target=lambda: statuses.append(scenario.run().round.status))
        thread.start()
        thread.join()

    assert scenario.run(watchers=[Meddler("plan", again)]).round.status == "in-sync"
    assert statuses == ["locked"]


def test_open_differences_are_reported_with_their_reason(scenario: Scenario) -> None:
    """Findings in the sheet are reported with their address and exit code 3."""
    text = scenario.sheet.read_text("utf-8-sig").replace("available", "avialable", 1)
    scenario.sheet.write_text(text, "utf-8")
    report = scenario.run()
    assert (report.round.status, report.round.exit_code) == ("findings", 3)
    assert kinds(report) == [("finding", 3)]
    assert report.open[0].address.startswith("line 4")
    strict = scenario.run(strict=True)
    assert strict.round.status == "findings"
    assert "strict" in strict.round.hint


@pytest.mark.parametrize("when", ["write", "verify", "report"])
def test_whatever_cuts_a_round_off_the_next_one_knows_what_was_sent(
    scenario: Scenario, when: Step
) -> None:
    """A round that is interrupted at any later step has recorded what was sent: both sides end with
    the latest edits, without a conflict.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    sheet = scenario.sheet.read_bytes()
    scenario.write([*changed(PETS, 1, name="Rex"), ps.Pet(name="Neu", status="sold")])
    assert scenario.run(watchers=[Meddler(when, interrupt)]).round.status in ("interrupted", "done")
    assert scenario.store_pets()[1].name == "Rex"
    scenario.write([*PETS, ps.Pet(name="Neu", status="sold")])
    report = scenario.run()
    assert report.round.status == "done"
    # Only the id of the row whose pet was added.
    assert [[*change.values] for change in report.sheet] == [["id"]]
    assert scenario.store_pets()[1].name == "Pet 1"
    assert len(scenario.store_pets()) == 13
    assert sheet != scenario.sheet.read_bytes()
    assert scenario.sheet_pets() == scenario.store_pets()


def test_what_nobody_expects_is_an_error_round(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error gives an error round with its traceback in the log, without secrets, and
    releases the lock.
    """
    config = scenario.config(scenario.job(tags=(Odd(),)), secrets=(Secret("s3cr3t-word"),))
    (report,) = reconcile_jobs(config)
    assert (report.round.status, report.round.exit_code) == ("error", 1)
    assert report.round.problem.startswith("unexpected: ")
    assert "Traceback" in caplog.text
    assert "s3cr3t-word" not in caplog.text + report.round.problem
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("place", ["reports", "state/reconcile/history.jsonl"])
def test_what_cannot_be_kept_is_reported_and_the_rest_is_done(
    scenario: Scenario, place: str
) -> None:
    """A report or a history that cannot be written makes a good round an error, but its changes are
    applied.
    """
    path = scenario.folder / place
    aside = path.with_name("aside")
    path.rename(aside)
    if place == "reports":
        path.write_text("", "utf-8")
    else:
        path.mkdir()
    scenario.write(changed(PETS, 1, name="Rex"))
    report = scenario.run()
    assert (report.round.status, report.round.exit_code, report.round.applied) == ("error", 1, 1)
    assert scenario.store_pets()[1].name == "Rex"
    if place == "reports":
        path.unlink()
    else:
        path.rmdir()
    aside.rename(path)
    assert scenario.run().round.status == "in-sync"


def test_old_reports_go(scenario: Scenario) -> None:
    """Old reports are removed: the configured number stays, each as a page with its JSON, and so do
    files of the user.
    """
    reports = Reports(folder=scenario.folder / "few", keep=2)
    own = scenario.folder / "few" / "catalogue" / "0 notes.html"
    own.parent.mkdir(parents=True)
    own.touch()
    for _ in range(3):
        (report,) = reconcile_jobs(scenario.config(scenario.job(mode="check"), report=reports))
    files = sorted(path.name for path in (scenario.folder / "few" / "catalogue").iterdir())
    assert (len(files), files[0]) == (5, own.name)
    assert files[-2:] == [f"{report.round.id}.html", f"{report.round.id}.json"]


def test_a_copy_of_a_version_ends_no_round(scenario: Scenario) -> None:
    """A copy that another program makes in the state folder, such as one for synchronising folders,
    does not count as a version of the sheet.
    """
    (first,) = (scenario.state / "reconcile" / "versions" / "catalogue").glob("*.json")
    copy = first.with_name(f"{first.stem} (conflicted copy).json")
    copy.write_bytes(first.read_bytes())
    scenario.box.put(changed(PETS, 1, name="Rex")[0])
    assert scenario.run(mode="two-way").round.status == "done"
    assert scenario.sheet_pets()[1].name == "Rex"


def test_a_torn_history_is_read_all_the_same(scenario: Scenario) -> None:
    """A history with an incomplete last line is still read, and the next round begins a new
    line.
    """
    history = History(scenario.state)
    with history.path.open("ab") as file:
        file.write(b'{"id":"half')
    report = scenario.run()
    assert history.rounds()[-1] == report.round
    assert len(history.rounds()) == 2
    assert history.rounds("other") == []
    assert history.rounds(limit=1) == [report.round]


def test_what_was_merged_and_cut_off_merges_again(scenario: Scenario) -> None:
    """A merge of photos that was interrupted gives the same result again: a photo that the store
    removed is not restored.
    """
    one, two, three = (f"https://shop.example/{name}.jpg" for name in "abc")
    scenario.write(changed(PETS, 1, photo_urls=(one, two)))
    assert scenario.run().round.status == "done"
    scenario.write(changed(PETS, 1, photo_urls=(three, one, two)))
    scenario.box.put(changed(PETS, 1, photo_urls=(two,))[0])

    def interrupt() -> None:
        raise KeyboardInterrupt

    assert scenario.run(watchers=[Meddler("write", interrupt)]).round.status == "interrupted"
    assert scenario.run().round.status == "done"
    assert (
        scenario.store_pets()[1].photo_urls == scenario.sheet_pets()[1].photo_urls == (three, two)
    )


_KILLED = """
import os, signal, sys
from petsync import sheets
from petsync.cli import main

write, name, moment = sheets.write_synced, sys.argv[1], sys.argv[2]

def killed(sheet, *args, **more):
    is_it = os.path.basename(sheet.source) == name
    if is_it and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    backup = write(sheet, *args, **more)
    if is_it:
        os.kill(os.getpid(), signal.SIGKILL)
    return backup

sheets.write_synced = killed
main(["reconcile"])
"""
_FOLDER = """\
url = "{url}"
state = "state"

[jobs.inbox]
mode = "two-way"
folder = "in"
delete_missing = true
guard = {{ max_update = 100 }}
"""


class _Folder:
    """A job of a folder with two sheets: a has the pets 1 to 6, b the pets 7 to 12."""

    def __init__(self, box: Sandbox, folder: Path, ending: str) -> None:
        self.box, self.folder = box, folder
        self.paths = [folder / "in" / f"{name}.{ending}" for name in "ab"]
        (folder / "in").mkdir(parents=True)
        (folder / "petsync.toml").write_text(_FOLDER.format(url=box.url), "utf-8")
        box.set_faults(None)
        box.reset(PETS)
        self.write(PETS[:6], PETS[6:])
        assert self.run() == ["in-sync", "in-sync"]

    def write(self, *pets: list[ps.Pet]) -> None:
        """Write both sheets."""
        for path, some in zip(self.paths, pets, strict=True):
            ps.write_sheet(ps.frame_from_pets(some), path, base=False, force=True)

    def read_pets(self) -> list[list[ps.Pet]]:
        """Return the pets of both sheets."""
        return [read_pets(path, self.box) for path in self.paths]

    def run(self) -> list[str]:
        """Run a complete round, and return the status of each sheet."""
        rounds = ps.reconcile.run(self.folder / "petsync.toml")
        return [report.round.status for report in rounds]

    def run_killed(self, name: str, moment: str) -> None:
        """Run a round whose process is killed before or after it writes the sheet of this name."""
        args = [sys.executable, "-c", _KILLED, name, moment]
        done = subprocess.run(args, cwd=self.folder, capture_output=True, timeout=120, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.parametrize(
    ("ending", "sheet", "moment"),
    [("csv", "a", "after"), ("xlsx", "b", "before"), ("csv", "b", "after")],
)
def test_a_round_that_is_killed_between_two_sheets_is_finished(
    scenario: Scenario, tmp_path: Path, ending: str, sheet: str, moment: str
) -> None:
    """A round that is killed between or after the writes of a folder's sheets, with edits, new
    rows, store changes and a moved row in both, is finished by the next round, which loses, doubles
    and reverts nothing.
    """
    box = scenario.box
    inbox = _Folder(box, tmp_path / "inbox", ending)
    for pet_id, name in ((2, "Store 2"), (8, "Store 8")):
        box.put(changed(PETS, pet_id, name=name)[pet_id - 1])
    calm, shy, young = (ps.Tag(n, name) for n, name in enumerate(("calm", "shy", "young"), 1))
    box.put(changed(PETS, 9, tags=(calm, shy))[8])
    edited = changed(PETS, 9, tags=(calm, young))
    for pet_id in (1, 4, 7, 12):
        edited = changed(edited, pet_id, name=f"Sheet {pet_id}")
    new = [ps.Pet(name=f"New {name}", status="sold", tags=(shy,)) for name in "ab"]
    inbox.write([*edited[:5], new[0]], [*edited[6:], edited[5], new[1]])
    inbox.run_killed(f"{sheet}.{ending}", moment)

    first, second = inbox.read_pets()
    # Two edits are taken back, whether or not they were sent.
    first = changed(changed(first, 1, name="Pet 1"), 3, name="Sheet 3")
    second = changed(changed(second, 7, name="Pet 7"), 10, name="Sheet 10")
    second = [replaced(p, tags=(young,)) if p.name == "New b" else p for p in second]
    inbox.write(first, second)
    for pet_id, name in ((2, "Store 2b"), (11, "Store 11")):
        box.put(changed(PETS, pet_id, name=name)[pet_id - 1])
    assert set(inbox.run()) <= {"done", "in-sync"}

    first, second = inbox.read_pets()
    pets = {pet.id: pet for pet in (*first, *second)}
    stored = {pet.id: pet for pet in box.pets()}
    assert len(first) + len(second) == len(pets) == 14
    assert pets == stored
    expected = {each.id: each.name for each in PETS} | {
        2: "Store 2b", 3: "Sheet 3", 4: "Sheet 4", 8: "Store 8", 10: "Sheet 10", 11: "Store 11",
        12: "Sheet 12",
    }  # fmt: skip
    assert {i: pet.name for i, pet in stored.items() if i in expected} == expected
    others = {pet.name: pet for i, pet in stored.items() if i not in expected}
    assert {name: pet.tags for name, pet in others.items()} == {"New a": (shy,), "New b": (young,)}
    assert set(stored[9].tags) == {calm, shy, young}
    assert 6 in {pet.id for pet in second}
    assert inbox.run() == ["in-sync", "in-sync"]


def _text_of_old(scenario: Scenario) -> None:
    scenario.sheet.write_bytes("id,name\n1,Zoë\n".encode("cp1252"))


def _http(scenario: Scenario) -> None:
    scenario.options = {**scenario.options, "url": "http://shop.example/v2", "token": Secret("abc")}


def test_options_of_sheets_are_named_as_those_of_the_configuration() -> None:
    """Headers and worksheets, whatever their names, are named by options of the configuration."""
    for header in ("nam", "Name of pet", "it's"):
        way = in_terms_of_jobs(f"Map it {mapping_hint(header, 'name')}.", "shop")
        assert way == "Map it ([columns] in petsync.toml)."
    for tab in ("Pets", "My pets"):
        way = in_terms_of_jobs(f"Read it: --sheet {quote(tab)}, in Python tab={tab!r}.", "shop")
        assert way == f"Read it: tab = {tab!r} in the job."


@pytest.mark.parametrize(
    ("break_it", "way_out"),
    [
        (_text_of_old, 'Specify its encoding: encoding = "cp1252" in the job. Or save'),
        (_http, 'allow_http = ["shop.example"] in the job.'),
    ],
)
def test_the_way_out_of_a_round_is_one_of_the_configuration(
    scenario: Scenario, break_it: Callable[[Scenario], None], way_out: str
) -> None:
    """The hint of a failed round names a setting of the configuration, not a command option or a
    Python call.
    """
    break_it(scenario)
    report = scenario.run()
    texts = [report.round.hint, *(f"{each.problem} {each.hint}" for each in report.open)]
    assert any(way_out in each for each in texts), texts
    assert not any("in Python" in each for each in texts)
