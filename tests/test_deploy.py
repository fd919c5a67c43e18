"""docs/deploy: every scheduler example starts petsync and handles its exit codes."""

from __future__ import annotations

import ast
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import nbformat
import papermill
import pytest
import yaml
from crash.running import Nursery
from cronsim import CronSim

import petsync as ps
from petsync.cli.entry import cli
from petsync.protocol.json import decode_pets
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
NOTEBOOK = ROOT / "notebooks" / "06_reconciliation.ipynb"
CODES = {0, 1, 2, 3, 4, 5, 6, 7, 64}
AGAIN, TOLD, STUCK, AT_WORK = {1, 7}, {2, 3, 5}, {4, 64}, {6}
_SECRET = re.compile(r"(?i)(token|secret|password|key)\s*[:=]\s*[\"']?[A-Za-z0-9+/]{12,}")


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Yield the sample store, without access control."""
    with Sandbox(auth=False, pets=[]) as sandbox:
        yield sandbox


@pytest.fixture
def house(tmp_path: Path, box: Sandbox) -> Path:
    """Return a machine with petsync in `opt`, and the sample configuration and secrets in `etc`."""
    box.reset(decode_pets((ps.sample_data() / "store.json").read_bytes()))
    shutil.copytree(ps.sample_data() / "reconcile", tmp_path / "etc")
    _program(tmp_path, f'exec "{sys.executable}" -m petsync.cli "$@"')
    env = tmp_path / "etc" / "petsync.env"
    env.write_text(f"PETSYNC_URL={box.url}\nPYTHONPATH={ROOT}\n", "utf-8")
    return tmp_path


def _program(folder: Path, says: str) -> None:
    program = folder / "opt" / "bin" / "petsync"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{says}\n", "utf-8")
    program.chmod(0o755)


def _reports(folder: Path) -> set[str]:
    return {path.parent.name for path in (folder / "reports").rglob("*.html")}


def _cron() -> tuple[str, list[str]]:
    """Return the schedule in the crontab, and its user and command."""
    lines = (DEPLOY / "cron" / "petsync").read_text("utf-8").splitlines()
    (line,) = (line for line in lines if re.match(r"[\d*]", line))
    *fields, user, command = line.split(maxsplit=6)
    return " ".join(fields), [user, command]


def _run_script(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of the crontab in cron's environment."""
    places = {"PETSYNC_HOME": str(folder / "opt"), "PETSYNC_ETC": str(folder / "etc")}
    cron = {"HOME": str(folder), "LOGNAME": "petsync", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    command = ["/bin/sh", "-c", str(DEPLOY / "cron" / "petsync-nightly")]
    return subprocess.run(
        command, env={**cron, **places}, cwd=folder, capture_output=True, text=True, check=False
    )


def test_cron_reconciles(house: Path) -> None:
    """The crontab's line has a valid time and user, and its script reconciles every job in cron's
    minimal environment and prints what needs attention.
    """
    schedule, (user, command) = _cron()
    assert next(CronSim(schedule, datetime(2026, 11, 21, tzinfo=UTC))).hour == 4
    assert (user, "%" in command) == ("petsync", False)
    assert Path(command).name == "petsync-nightly"
    done = _run_script(house)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "labels" in done.stdout
    assert _reports(house / "etc") == {"tanks", "arrivals", "labels"}


@pytest.mark.parametrize("code", sorted(CODES))
def test_cron_mails_what_needs_somebody(tmp_path: Path, code: int) -> None:
    """The script prints nothing after a night without problems, or if another process
    is at work.
    """
    _program(tmp_path, f"echo said; exit {code}")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "petsync.env").touch()
    done = _run_script(tmp_path)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout == ("" if code in {0} | AT_WORK else "said\n")


def _unit(name: str) -> dict[str, list[str]]:
    """Return a unit's settings; an empty setting resets those before it."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text("utf-8").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found[key] = [*found.get(key, []), value] if value else []
    return found


def test_systemd_reconciles(house: Path, nursery: Nursery) -> None:
    """The command of the service, with its environment file, reconciles every job."""
    service = _unit("petsync.service")
    program, *args = shlex.split(service["ExecStart"][0])
    assert program == "/opt/petsync/bin/petsync"
    args = [arg.replace("/etc/petsync", str(house / "etc")) for arg in args]
    lines = (house / "etc" / "petsync.env").read_text("utf-8").splitlines()
    env = dict(line.split("=", 1) for line in lines)
    done = nursery(*args, folder=house, env=env)
    assert str(done.wait(60)) in service["SuccessExitStatus"][0].split(), done.output()
    assert _reports(house / "etc") == {"tanks", "arrivals", "labels"}


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """systemd-analyze accepts the service, the timer and the additions, and finds few privileges
    beyond the service's work.
    """
    _program(tmp_path, "exit 0")
    units = []
    for name in ("petsync.service", "petsync.timer", "credentials.conf", "every.conf"):
        folder = tmp_path / ("" if name.startswith("petsync") else "petsync.service.d")
        folder.mkdir(exist_ok=True)
        text = (DEPLOY / "systemd" / name).read_text("utf-8")
        (folder / name).write_text(text.replace("/opt/petsync", str(tmp_path / "opt")), "utf-8")
        units += [str(folder / name)] if folder == tmp_path else []
    every = tmp_path / "petsync.service.d" / "every.conf"
    with_every = every.read_text("utf-8")
    for rest in ("", with_every):
        every.write_text(rest, "utf-8")
        _analyzed("verify", "--man=no", *units)
    _analyzed("security", "--offline=true", "--threshold=20", "--no-pager", units[0])
    (calendar,) = _unit("petsync.timer")["OnCalendar"]
    assert "04:00:00 Europe/Vienna" in _analyzed("calendar", calendar)


def _analyzed(*args: str) -> str:
    done = subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _numbers(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", text)}


def test_systemd_knows_the_codes() -> None:
    """A code that petsync reports itself is not a failure for systemd, and only code 1 is
    tried again.
    """
    service = _unit("petsync.service")
    fine = _numbers(service["SuccessExitStatus"][0])
    never = _numbers(service["RestartPreventExitStatus"][0])
    assert fine == TOLD | AT_WORK | {7}
    assert CODES - {0} - fine - never == {1}
    assert never == STUCK


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    """Return the objects of the Kubernetes file, by kind."""
    text = (DEPLOY / "kubernetes" / "cronjob.yaml").read_text("utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_kubernetes_runs_it_as_nobody(cluster: dict[str, Any]) -> None:
    """The pod is not root, cannot gain privileges, and writes only to its volumes; secrets come
    from a Secret, and the schedule is valid.
    """
    spec = cluster["CronJob"]["spec"]
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["envFrom"] == [{"secretRef": {"name": "petsync"}}]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert next(CronSim(spec["schedule"], datetime(2026, 11, 21, tzinfo=UTC)))
    assert (spec["concurrencyPolicy"], spec["timeZone"]) == ("Forbid", "Europe/Vienna")


def test_kubernetes_has_a_configuration(cluster: dict[str, Any], tmp_path: Path) -> None:
    """The configuration in the Kubernetes file is valid, and keeps its state on the volume."""
    path = tmp_path / "petsync.toml"
    path.write_text(cluster["ConfigMap"]["data"]["petsync.toml"], "utf-8")
    config = ps.reconcile.load(path, {"PETSYNC_NOTIFY": "json://127.0.0.1/told"})
    (container,) = _pod(cluster)["containers"]
    mounts = {Path(mount["mountPath"]) for mount in container["volumeMounts"]}
    assert config.state in mounts
    assert config.jobs[0].sheet is not None
    assert config.jobs[0].sheet.parent in mounts


def _pod(cluster: dict[str, Any]) -> Any:
    return cluster["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_kubernetes_knows_the_codes(cluster: dict[str, Any]) -> None:
    """Kubernetes tries only an error and a stopped run again."""
    rules = cluster["CronJob"]["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    (failing,) = (rule for rule in rules if rule["action"] == "FailJob")
    assert set(failing["onExitCodes"]["values"]) == CODES - {0} - AGAIN
    assert _pod(cluster)["restartPolicy"] == "Never"


@pytest.fixture(scope="module")
def dask_pods() -> dict[str, Any]:
    """Return the pods of the Kubernetes file for Dask, by the name of their container."""
    text = (DEPLOY / "kubernetes" / "dask.yaml").read_text("utf-8")
    objects = [each for each in yaml.safe_load_all(text) if each["kind"] != "Service"]
    specs = [each["spec"]["template"]["spec"] for each in objects]
    return {spec["containers"][0]["name"]: spec for spec in specs}


def test_kubernetes_workers_know_no_secret(dask_pods: dict[str, Any]) -> None:
    """All pods of the cluster have the same image and see the same folder; only the pod that reads
    the store knows the token.
    """
    assert [*dask_pods] == ["scheduler", "worker", "petsync"]
    containers = {name: pod["containers"][0] for name, pod in dask_pods.items()}
    for pod, container in zip(dask_pods.values(), containers.values(), strict=True):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert (container["image"], container["volumeMounts"], pod["volumes"]) == (
            containers["petsync"]["image"],
            containers["petsync"]["volumeMounts"],
            dask_pods["petsync"]["volumes"],
        )
    assert [name for name, each in containers.items() if "envFrom" in each] == ["petsync"]
    env = {each["name"]: each["value"] for each in containers["petsync"]["env"]}
    assert env["TMPDIR"] == "/shared"


def test_kubernetes_commands_for_dask_exist(dask_pods: dict[str, Any]) -> None:
    """petsync and Dask know the commands and the options of the pods, and all use one address."""
    args = dask_pods["petsync"]["containers"][0]["args"]
    with click.Context(cli) as group:
        command = cli.get_command(group, args[0])
    assert command is not None
    context = command.make_context(args[0], args[1:])
    assert context.params["sheet"] == Path("/shared/big")
    commands = {
        name: dask_pods[name]["containers"][0]["command"] for name in ("scheduler", "worker")
    }
    address = args[args.index("--dask") + 1]
    assert address in commands["worker"]
    assert commands["scheduler"][commands["scheduler"].index("--port") + 1] in address
    for each in commands.values():
        subprocess.run(
            [sys.executable, "-m", *each, "--help"], check=True, stdout=subprocess.DEVNULL
        )


@pytest.fixture(scope="module")
def workflow() -> Any:
    """Return the workflow; YAML 1.1 reads its key `on` as true."""
    text = (DEPLOY / "github-actions" / "reconcile.yml").read_text("utf-8")
    return yaml.safe_load(text)


def test_github_gives_little_away(workflow: Any) -> None:
    """Actions are pinned to commits, the token is read-only, secrets are in one step only, and runs
    do not overlap.
    """
    (job,) = workflow["jobs"].values()
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", action) for action in actions)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is False
    with_secrets = [step for step in job["steps"] if "secrets." in str(step)]
    assert [list(step["env"]) for step in with_secrets] == [["PETSYNC_TOKEN", "DRY_RUN"]]
    assert not any("${{" in step.get("run", "") for step in job["steps"])
    (at,) = workflow[True]["schedule"]
    assert next(CronSim(at["cron"], datetime(2026, 11, 21, tzinfo=UTC)))


@pytest.mark.parametrize("dry", ["", "--dry-run"])
@pytest.mark.parametrize("code", sorted(CODES))
def test_github_knows_the_codes(workflow: Any, tmp_path: Path, code: int, dry: str) -> None:
    """A step fails for a code that needs attention; in a dry run, differences are not a failure."""
    _program(tmp_path, f"exit {code}")
    (tmp_path / "opt").rename(tmp_path / "petsync")
    (job,) = workflow["jobs"].values()
    (step,) = (step for step in job["steps"] if step.get("name") == "Reconcile")
    env = {**os.environ, "RUNNER_TEMP": str(tmp_path), "DRY_RUN": dry}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=env, check=False)
    fine = {0} | AT_WORK | ({2} if dry else set())
    assert done.returncode == (0 if code in fine else code)


def test_airflow_knows_the_codes() -> None:
    """The DAG is valid Python, and names the codes that are tried again or skipped."""
    tree = ast.parse((DEPLOY / "airflow" / "petsync_dag.py").read_text("utf-8"))
    named = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("AT_WORK", "MAY_PASS", "JOBS")
    }
    assert {named["AT_WORK"]} == AT_WORK
    assert set(named["MAY_PASS"]) == AGAIN
    assert named["JOBS"]


def _instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
    joined = re.sub(r"\\\n\s*", "", text).splitlines()
    lines = [line.split(maxsplit=1) for line in joined if line and not line.startswith("#")]
    return [(name, rest) for name, rest in lines]


def test_the_container_is_nobody() -> None:
    """The container runs as a numeric user other than root, keeps its state on a volume, and has a
    valid command.
    """
    last = dict(_instructions())
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last["USER"])
    assert last["VOLUME"] == '["/var/lib/petsync"]'
    program, command = (ast.literal_eval(last[name]) for name in ("ENTRYPOINT", "CMD"))
    assert program == ["petsync"]
    assert command[0] in cli.list_commands(click.Context(cli))


def test_the_container_gets_what_it_is_built_from() -> None:
    """The build gets the files of the wheel, but not the history, the tests or any secrets."""
    lines = (DEPLOY / "container" / "Containerfile.containerignore").read_text("utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    needed = {"README.md", "petsync", "pyproject.toml", "sample_data", ".ci/constraints.txt"}
    assert kept == needed
    assert all((ROOT / name).exists() for name in kept)
    out = [line for line in lines if not line.startswith(("!", "#"))]
    for name in (".git", "tests", "petsync.env", "secrets/.petsync"):
        assert any(fnmatch.fnmatch(name, pattern.removeprefix("**/")) for pattern in out), name


def test_papermill_reconciles(house: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the notebook with only its petsync.toml part runs the jobs, writes a report of
    each, and ends with an error if a job needs attention; the executed copy stays.
    """
    book = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    book.cells = [c for c in book.cells if c.id in ("parameters", "setup", "jobs", "jobs-code")]
    own, executed = house / "own.ipynb", house / "night.ipynb"
    nbformat.write(book, own)  # type: ignore[no-untyped-call]
    monkeypatch.setenv("PETSYNC_URL", box.url)
    given = {"configuration": str(house / "etc" / "petsync.toml")}
    with pytest.raises(papermill.PapermillExecutionError, match="exit code 2"):
        papermill.execute_notebook(own, executed, given, progress_bar=False, log_output=False)
    assert _reports(house / "etc") == {"tanks", "arrivals", "labels"}
    assert "exit code 2" in executed.read_text("utf-8")


def test_the_table_of_codes_is_whole() -> None:
    """The page has each exit code exactly once."""
    table = (DEPLOY / "index.md").read_text("utf-8").partition("## Exit codes")[2]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == sorted(CODES)


def test_every_version_is_the_present_one() -> None:
    """Wheels and images on the pages have the current version."""
    texts = {p: p.read_text("utf-8") for p in DEPLOY.rglob("*") if p.is_file()}
    found = {
        (path.name, version)
        for path, text in texts.items()
        for version in re.findall(r"\bpetsync[-:]v?(\d+\.\d+\.\d+)", text)
    }
    assert {version for _, version in found} == {ps.__version__}
    assert {"reconcile.yml", "cronjob.yaml", "container.md", "cron.md", "systemd.md"} <= {
        name for name, _ in found
    }


def test_each_action_is_named_by_its_commit(workflow: Any) -> None:
    """Each action is pinned to a commit with its version in a comment, and each installed package
    has a hash.
    """
    text = (DEPLOY / "github-actions" / "reconcile.yml").read_text("utf-8")
    used = re.findall(r"uses: *(\S+)(.*)", text)
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)
    installs = [line for line in text.splitlines() if "bin/pip" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)


def test_every_file_is_on_a_page() -> None:
    """Each file of docs/deploy is linked from a page, and no file has a secret."""
    linked = set()
    for page in DEPLOY.glob("*.md"):
        linked |= set(re.findall(r"\]\(([^)#\s]+)\)", page.read_text("utf-8")))
    files = {path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".md"}
    assert {path.relative_to(DEPLOY).as_posix() for path in files} <= linked
    assert not [path for path in files if _SECRET.search(path.read_text("utf-8"))]


RELEASE = DEPLOY / "ci"


def _release_commands() -> Iterator[tuple[str, str]]:
    """Yield each shell command of a release, with the name of the file that has it."""
    for name in ("release.yml", "audit.yml"):
        text = yaml.safe_load((RELEASE / name).read_text("utf-8"))
        steps = (step for job in text["jobs"].values() for step in job["steps"])
        runs = [step["run"] for step in steps if "run" in step]
        yield from ((name, line) for run in runs for line in run.strip().splitlines())
    text = yaml.safe_load((RELEASE / "gitlab-ci.yml").read_text("utf-8"))
    for job in text.values():
        if isinstance(job, dict):
            lines = [*job.get("before_script", ()), *job.get("script", ())]
            yield from (("gitlab-ci.yml", line) for line in lines)
    (code,) = re.findall(
        r"```shell\n(.*?)```", (DEPLOY / "release.md").read_text("utf-8"), re.DOTALL
    )
    yield from (("release.md", line) for line in code.splitlines())


def test_a_release_is_built_alike_everywhere() -> None:
    """GitHub, GitLab and the page audit, list and build with the same commands, and name files that
    exist.
    """
    by_program: dict[str, set[tuple[str, ...]]] = {}
    for _, line in _release_commands():
        program, *words = shlex.split(line)
        by_program.setdefault(program, set()).add(tuple(words))
        files = [word for word in words if re.match(r"(?:docs/|\.ci/|pyproject)", word)]
        assert all((ROOT / file).is_file() for file in [*files, *([program] * ("/" in program))])
    assert len(by_program["pip-audit"]) == len(by_program["cyclonedx-py"]) == 1
    assert ("check", "--strict", "dist/*") in by_program["twine"]
    assert {words[1:] for words in by_program["docs/deploy/ci/build-release"]} == {()}
    assert os.access(RELEASE / "build-release", os.X_OK)
    own = {"python", "pip", "mkdir", "apt-get", "gh", "docs/deploy/ci/build-release"}
    assert set(by_program) - own == {"pip-audit", "cyclonedx-py", "twine"}


def test_release_tools_have_versions() -> None:
    """Each tool of a release has one version; `build` the one that the tests use."""
    lines = (RELEASE / "requirements.txt").read_text("utf-8").splitlines()
    tools = dict(line.split("==") for line in lines)
    assert set(tools) == {"build", "cyclonedx-bom", "pip-audit", "twine"}
    assert f"build=={tools['build']}" in (ROOT / ".ci" / "constraints.txt").read_text("utf-8")


def test_publishing_needs_no_secret() -> None:
    """Only the job that publishes gets an identity, in the environment `pypi` and after the build;
    no file has a secret, and actions are pinned to commits.
    """
    text = (RELEASE / "release.yml").read_text("utf-8")
    release = yaml.safe_load(text)
    assert release["permissions"] == {"contents": "read"}
    permissions = {name: job.get("permissions") for name, job in release["jobs"].items()}
    assert permissions == {
        "build": None,
        "publish": {"id-token": "write"},
        "attach": {"contents": "write"},
    }
    assert (release["jobs"]["publish"]["environment"], release["jobs"]["publish"]["needs"]) == (
        "pypi",
        "build",
    )
    gitlab = yaml.safe_load((RELEASE / "gitlab-ci.yml").read_text("utf-8"))
    assert [name for name, job in gitlab.items() if "id_tokens" in job] == ["publish"]
    assert gitlab["publish"]["needs"] == ["audit", "build"]
    assert gitlab["publish"]["rules"][0]["when"] == "manual"
    for name in ("release.yml", "audit.yml"):
        text = (RELEASE / name).read_text("utf-8")
        used = re.findall(r"uses: *(\S+)(.*)", text)
        assert used
        assert "secrets." not in text
        for action, comment in used:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action)
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


def test_updates_find_each_list_of_versions() -> None:
    """Dependabot and Renovate look at both files with versions, and at the actions."""
    lists = {".ci/constraints.txt", "docs/deploy/ci/requirements.txt"}
    bot = yaml.safe_load((RELEASE / "dependabot.yml").read_text("utf-8"))
    packages, actions = bot["updates"]
    folders = {folder.strip("/") for folder in packages["directories"]}
    assert {str(Path(name).parent) for name in lists} <= folders
    assert (packages["package-ecosystem"], actions["package-ecosystem"]) == (
        "pip",
        "github-actions",
    )
    renovate = json.loads((RELEASE / "renovate.json").read_text("utf-8"))
    patterns = renovate["pip_requirements"]["managerFilePatterns"]
    found = {name for name in lists for each in patterns if re.search(each.strip("/"), name)}
    assert found == lists
