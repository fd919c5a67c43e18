"""petsync reconcile from the command line."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from commands import Shell, shop
from crash.running import Nursery

import petsync as ps
from petsync.cli.context import complete_jobs, complete_runs
from petsync.config.tools import _SETTLED
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture
def config(box: Sandbox, tmp_path: Path) -> Path:
    """Write a configuration with one job, whose sheet has one different name, and return its
    path.
    """
    pets = [ps.Pet(id=1, name="Rexi"), *shop()[1:]]
    ps.write_sheet(ps.frame_from_pets(pets), tmp_path / "catalogue.csv", base=False)
    path = tmp_path / "petsync.toml"
    path.write_text(
        f'url = "{box.url}"\n[jobs.catalogue]\nmode = "push"\nsheet = "catalogue.csv"\n', "utf-8"
    )
    return path


def test_a_round_is_run_and_reported(shell: Shell, config: Path, box: Sandbox) -> None:
    """A round prints its table on stdout; a dry run sends and writes nothing."""
    dry = shell("reconcile", "--dry-run")
    assert dry.code == 2
    assert "Differences (dry run)" in dry.out
    assert not (config.parent / ".petsync").exists()
    done = shell("reconcile", config)
    assert done.code == 0, done.err
    assert "catalogue" in done.out
    assert box.pets()[0].name == "Rexi"


def test_variables_come_from_a_file(shell: Shell, config: Path, box: Sandbox) -> None:
    """--env-file sets the configuration's variables and the PETSYNC_ ones; an option has
    priority.
    """
    text = config.read_text("utf-8").replace(f'url = "{box.url}"\n', "")
    config.write_text(text.replace("catalogue.csv", "${SHEET}.csv"), "utf-8")
    variables = config.with_name("petsync.env")
    variables.write_text(f"SHEET=catalogue\nPETSYNC_URL={box.url}\n", "utf-8")
    variables.chmod(0o600)
    done = shell("reconcile", "--dry-run", "--env-file", variables)
    assert done.code == 2
    assert done.err == f"Next: petsync reconcile --env-file {variables}\n"
    elsewhere = ("--url", "http://127.0.0.1:9/v2")
    assert shell("reconcile", "--dry-run", "--env-file", variables, *elsewhere).code == 1


def test_commands_of_a_round_work_in_any_folder(
    shell: Shell, config: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of a report name the configuration, the variables, the state folder and the
    store of the round: they release its plan, undo its run and start its job in another folder.
    """
    jobs, variables = config.with_name("our jobs.toml"), config.with_name("our.env")
    text = config.read_text("utf-8").replace(box.url, "${STORE}")
    config.rename(jobs)
    jobs.write_text(
        f'state = "my state"\n{text}delete_missing = true\nguard = {{ max_update = 0 }}\n'
        '[jobs.lost]\nmode = "push"\nsheet = "lost.csv"\n',
        "utf-8",
    )
    variables.write_text(f"STORE={box.url}\n", "utf-8")
    variables.chmod(0o600)
    monkeypatch.chdir("/")
    given = ("reconcile", jobs, "--env-file", variables)

    def commands_after(job: str) -> tuple[str, list[list[str]]]:
        (report,) = shell(*given, "--job", job, "--json").json["rounds"]
        lines = report["commands"]
        return report["round"]["hint"], [shlex.split(line)[1:] for line in lines]

    hint, ((apply, *words),) = commands_after("catalogue")
    assert apply == "apply"
    assert shlex.join([apply, *words]) in hint
    box.put(ps.Pet(id=1, name="Rex", status="sold"))
    released = shell("apply", *words, "--yes")
    assert released.code == 5
    named = " ".join(released.out.split())
    assert "Run `petsync reconcile --job catalogue`: the new plan shows both values." in named
    assert "lan again" not in named
    (again,) = re.findall("^Next: petsync (.*)$", released.err, re.MULTILINE)
    assert shlex.split(again)[1:] == [str(jobs), "--job", "catalogue", *map(str, given[2:])]
    assert shell(*shlex.split(again)).code == 4
    assert shell("apply", *words, "--yes").code == 0
    assert box.pets()[0].name == "Rexi"
    hint, ((again, *words),) = commands_after("lost")
    assert f"lost.csv --state '{jobs.with_name('my state')}' --url {box.url}`" in hint
    assert again == "reconcile"
    ps.write_sheet(ps.frame_from_pets(shop()), jobs.with_name("lost.csv"), base=False)
    done = shell(again, *words, "--json")
    assert done.code == 0
    shown, undo = (shlex.split(line)[1:] for line in done.json["rounds"][0]["commands"])
    assert shell(*shown).code == 0
    assert shell(*undo, "--yes").code == 0
    assert box.pets()[0].name == "Rexi"
    # The commands of a refusal name the sheet.
    lost = jobs.with_name("lost.csv")
    first, second, third, *rest = shop()
    exchanged = [
        msgspec.structs.replace(pet, id=number)
        for pet, number in ((first, 2), (second, 3), (third, 1))
    ]
    ps.write_sheet(ps.frame_from_pets([*exchanged, *rest]), lost, base=False)
    hint, _ = commands_after("lost")
    plan, apply = re.findall(r"`petsync ([^`]*)`", hint)
    assert shlex.split(plan)[:2] == ["plan", str(lost)]
    assert "3 to change" in shell(*shlex.split(plan)).out
    assert shlex.split(apply)[:2] == ["apply", str(lost)]


def test_machines_get_json(shell: Shell, config: Path) -> None:
    """--json is one document with every round."""
    done = shell("reconcile", "--json", "--job", "catalogue")
    (output,) = done.json["rounds"]
    assert output["round"]["applied"] == 1


def test_a_dry_run_shows_all_that_it_would_do(shell: Shell, config: Path) -> None:
    """A dry run shows each value before and after, as many as --limit allows, and --report saves a
    page.
    """
    page = config.parent / "tonight.html"
    done = shell("reconcile", "--dry-run", "--limit", "0", "--report", page)
    assert "name: 'Rex' -> 'Rexi'" in done.out
    assert f"Saved {page}." in done.err.replace("\n", " ").replace("  ", " ")
    assert "Rexi" in page.read_text("utf-8")
    assert shell("reconcile", "--report", "nowhere/x.html").code == 64
    assert shell("reconcile", "--every", "1h", "--limit", "1").code == 64


def test_the_log_is_for_who_asks(shell: Shell, config: Path) -> None:
    """A successful round logs nothing unless -v or --log is given."""
    assert "begins" not in shell("reconcile").err
    assert "catalogue begins" in shell("reconcile", "-v").err
    assert "catalogue begins" in shell("reconcile", "--log", "json").err


def test_in_pull_it_is_reported_what_gives_way(shell: Shell, config: Path) -> None:
    """A pull shows beforehand which values the store replaces, and afterwards how many cells
    changed and the backup's path.
    """
    config.write_text(config.read_text("utf-8").replace('"push"', '"pull"'), "utf-8")
    dry = " ".join(shell("reconcile", "--dry-run").out.split())
    assert "name: 'Rexi' is replaced by 'Rex'; " in dry
    assert "(the store leads)" in dry
    done = shell("reconcile")
    assert "1 row changed (1 cell that had another value). Backup:" in " ".join(done.out.split())
    (backup,) = config.parent.glob("catalogue.backup-*.csv")
    assert str(backup.resolve()) in map(str.strip, done.out.splitlines())


def test_a_round_is_found_by_its_id(shell: Shell, config: Path) -> None:
    """`petsync runs` lists a round and shows it by its id with its report. A job's runs include the
    apply of its waiting plan and the undo of that run.
    """
    text = config.read_text("utf-8")
    config.write_text(f"{text}[jobs.catalogue.guard]\nmax_update = 0\n", "utf-8")
    output = shell("reconcile", "--json").json["rounds"][0]["round"]
    assert output["status"] == "waiting"
    assert output["id"][:22] in shell("runs").out
    shown = shell("runs", output["id"][:24])
    assert "name: 'Rex' -> 'Rexi'" in shown.out
    assert output["report"] in shown.out
    assert shell("runs", output["id"], "--json").json["round"]["id"] == output["id"]
    assert shell("runs", output["id"], "--report", "x.html").code == 64
    refused = shell("runs", output["id"], "--failed", "x.xlsx")
    assert (refused.code, refused.out) == (1, "")
    assert "It sent nothing to the store." in refused.err
    undone = shell("undo", output["id"], "--url", text.split('"')[1])
    assert undone.code == 1
    assert "is a round, not a run in the journal" in undone.err
    assert "It sent nothing to the store." in undone.err
    url = text.split('"')[1]
    run = shell("apply", output["waiting"], "--yes", "--url", url, "--json").json["run_id"]
    back = shell("undo", run, "--yes", "--url", url, "--json").json["run_id"]
    runs = shell("runs", "--job", "catalogue", "--json").json["runs"]
    assert [each["run_id"] for each in runs] == [back, run]
    shell("reconcile", "--dry-run")
    Path(output["waiting"]).unlink()
    shell("runs", "--html", "h.html")
    page = Path("h.html").read_text("utf-8")
    assert "The plan no longer waits" in page
    assert "petsync apply" not in page
    assert output["report"] in page
    assert "2 runs outside rounds, 2 changes for the store; the last" in page


@pytest.mark.parametrize("option", ["--failed", "--results"])
def test_a_workbook_of_a_round_names_its_run(shell: Shell, config: Path, option: str) -> None:
    """A workbook has the rows of a run: for the id of a round, the error names the round's run."""
    round_ = shell("reconcile", str(config), "--json").json["rounds"][0]["round"]
    (run,) = round_["runs"]
    refused = shell("runs", round_["id"][:22], option, "rows.xlsx")
    assert (refused.code, refused.out) == (1, "")
    assert "is a round, not a run in the journal" in refused.err
    assert run in refused.err
    assert shell("runs", run, option, "rows.xlsx").code == 0


def test_a_plan_that_no_longer_waits(
    shell: Shell, config: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a round has replaced or removed a waiting plan, commands that name its file say which
    round, when, and which file waits now, also in another folder.
    """
    text = config.read_text("utf-8").replace('"push"', '"two-way"')
    config.write_text(f"{text}[jobs.catalogue.guard]\nmax_update = 0\n", "utf-8")

    def run_round() -> Any:
        return shell("reconcile", config, "--json").json["rounds"][0]["round"]

    def refused(*words: object) -> str:
        done = shell(*words)
        assert (done.code, "No such file" in done.err) == (1, False)
        return " ".join(done.err.split())

    sheet = config.with_name("catalogue.csv")
    ps.write_sheet(ps.frame_from_pets(shop()), sheet, base=False)
    agreed = sheet.read_text("utf-8")
    assert run_round()["status"] == "in-sync"
    sheet.write_text(agreed.replace("Rex", "Rexi"), "utf-8")
    waiting = run_round()["waiting"]
    sheet.write_text(agreed, "utf-8")
    box.put(ps.Pet(id=5, name="Tommy", status="sold"))
    replaced = run_round()
    assert replaced["status"] == "waiting"
    assert replaced["waiting"] != waiting
    when = datetime.fromisoformat(replaced["started"]).astimezone()
    monkeypatch.chdir(config.parent.parent)
    refusal = refused("apply", waiting)
    assert "the plan of job catalogue no longer waits" in refusal
    assert f"the round of {when:%Y-%m-%d %H:%M} ({replaced['id']}) replaced it" in refusal
    (line,) = re.findall("`petsync (apply .*?)` shows the plan that waits now.", refusal)
    assert shlex.split(line)[:2] == ["apply", replaced["waiting"]]
    assert "Tommy" in shell(*shlex.split(line)).err
    assert f"({replaced['id']}) replaced it" in refused("rehearse", waiting, "--url", box.url)
    assert f"({replaced['id']}) replaced it" in refused("diff", waiting, sheet)
    box.put(ps.Pet(id=5, name="Tom", status="sold"))
    config.write_text("[", "utf-8")
    shell("reconcile", config)
    config.write_text(text.replace("[jobs.catalogue]", "[jobs.renamed]"), "utf-8")
    removed = run_round()
    assert removed["status"] == "in-sync"
    refusal = refused("apply", replaced["waiting"])
    assert f"({removed['id']}) removed it: it was released, or is no longer needed" in refusal
    assert "No plan of this job waits now." in refusal
    Path(config.parent / ".petsync/reconcile/history.jsonl").unlink()
    assert shell("apply", waiting).code == 1


def test_jobs_rounds_and_runs_are_completed(shell: Shell, config: Path) -> None:
    """Completion offers the jobs of petsync.toml and the rounds and runs of the state folder, and
    nothing if there are none.
    """
    asking = click.Context(click.Command("x"))
    assert complete_jobs(asking, click.Option(["--job"]), "cat") == ["catalogue"]
    assert complete_runs(asking, click.Option(["--job"]), "") == []
    output = shell("reconcile", "--json").json["rounds"][0]["round"]
    assert set(complete_runs(asking, click.Option(["--job"]), "2")) == {
        output["id"],
        *output["runs"],
    }
    config.write_text("[", "utf-8")
    assert complete_jobs(asking, click.Option(["--job"]), "") == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--job", "catalog"], "Did you mean catalogue?"),
        (["missing.toml"], "petsync init"),
        (["--every", "15"], "--every is '15'"),
        (["--every", "1h", "--dry-run"], "leave out --job, --dry-run"),
        (["--allow-http", "shop"], "into the configuration"),
    ],
)
def test_mistakes_are_usage(shell: Shell, config: Path, args: list[str], message: str) -> None:
    """A mistake in the options is a usage error with the fix."""
    done = shell("reconcile", *args)
    assert done.code == 64
    assert message in done.err


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGTERM, 7), (signal.SIGKILL, -9)])
def test_a_round_that_is_ended_from_outside_is_finished(
    shell: Shell, tmp_path: Path, nursery: Nursery, sign: signal.Signals, code: int
) -> None:
    """A round that a signal ended is completed first by the next round; no add is repeated or
    lost.
    """
    pets = [ps.Pet(id=number, name=f"Pet {number}", status="sold") for number in range(1, 5)]
    new = [ps.Pet(name=f"Neu {number}", status="sold") for number in range(12)]
    ps.write_sheet(ps.frame_from_pets([*pets, *new]), tmp_path / "catalogue.csv", base=False)
    with Sandbox(auth=False, pets=pets, faults="latency=0.05") as box:
        (tmp_path / "petsync.toml").write_text(
            f'url = "{box.url}"\ntimeout = 5\n[jobs.catalogue]\nmode = "two-way"\n'
            'sheet = "catalogue.csv"\nconcurrency = 2\n'
            '[jobs.never]\nmode = "check"\nsheet = "catalogue.csv"\n',
            "utf-8",
        )
        running = nursery("reconcile", folder=tmp_path)
        assert running.until(lambda: box.requests["addPet"] > 3)
        running.signal(sign)
        assert running.wait(120) == code, running.output()
        assert len(box.pets()) < 16
        if code == 7:
            text = " ".join(running.output().split())
            made = len(box.pets()) - 4
            assert f"{made} of 12 changes for the store were made, {12 - made} not yet" in text
            assert f" catalogue {made} of +12 " in text
            assert "Next: petsync reconcile" in text
        box.set_faults(None)
        done = shell("reconcile", "--json")
        first, second = (each["round"] for each in done.json["rounds"])
        assert (first["status"], first["resumed"]) == ("done", 1), done.err
        assert second["status"] == "in-sync"
        names = sorted(pet.name or "" for pet in box.pets())
        assert names == sorted(pet.name or "" for pet in [*pets, *new])


def test_a_variable_that_replaces_the_address_in_the_file_is_named(
    shell: Shell, config: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each report names the store, and where PETSYNC_URL replaces the address in petsync.toml, a
    line names both; without the variable, or with the same address, there is no such line.
    """
    page = config.with_name("round.html")
    text = config.read_text("utf-8")
    done = shell("reconcile", "--dry-run", "--report", page)
    assert f"  store  {box.url}\n" in done.out
    assert "PETSYNC_URL" not in done.out + done.err + page.read_text("utf-8")
    monkeypatch.setenv("PETSYNC_URL", box.url)
    assert "PETSYNC_URL" not in shell("reconcile", "--dry-run").out
    assert "PETSYNC_URL" not in shell("plan", "catalogue.csv").err
    config.write_text(text.replace(box.url, "https://other.example/v2"), "utf-8")
    done = shell("reconcile", "--dry-run", "--report", page)
    assert "PETSYNC_URL  replaces https://other.example/v2\n" in done.out
    assert "replaces https://other.example/v2" in page.read_text("utf-8")
    planned = shell("plan", "catalogue.csv")
    line = f"Store: {box.url} (from PETSYNC_URL; petsync.toml names https://other.example/v2)\n"
    assert planned.err.startswith(line)


@pytest.mark.skipif(os.name == "nt", reason="limits are POSIX's")
def test_a_round_on_a_full_disk_fails_its_unit(tmp_path: Path, monkeypatch: Any) -> None:
    """A round whose journal cannot be written ends with code 1, which the unit of `petsync
    schedule` does not count as a success, and shows what was sent and what was not.
    """
    import resource

    monkeypatch.chdir(tmp_path)
    rows = [f",Neu {number},sold\n" for number in range(300)]
    (tmp_path / "catalogue.csv").write_text("id,name,status\n" + "".join(rows), "utf-8")
    with Sandbox(auth=False) as box:
        (tmp_path / "petsync.toml").write_text(
            f'url = "{box.url}"\n[jobs.catalogue]\nmode = "push"\nsheet = "catalogue.csv"\n',
            "utf-8",
        )
        limits = (300_000, 300_000)
        done = subprocess.run(
            [sys.executable, "-m", "petsync", "reconcile"],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
        )
        made = len(box.pets())
    assert 0 < made < 300
    assert done.returncode == 1, done.stderr
    assert f"{made} of +300" in done.stdout
    assert "cannot be written" in done.stderr
    assert "1" not in _SETTLED.split()
