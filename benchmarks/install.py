"""Install petsync into new virtual environments, and measure its packages, size and start.

    python benchmarks/install.py [COMMIT]

Each line is an environment that `pip install` made from this source folder, and with COMMIT, such
as HEAD~20, also from that commit, as it was. pip takes the versions of .ci/constraints.txt from its
cache, which is filled first, and compiles the modules. On a busy machine, the processor's seconds
say more than those of the clock. The times of `petsync --help` and of `petsync plan` (100 rows, one
of them changed, and a store of 100 pets in another process) are the least of seven runs.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parents[1]
RUNS = 7
PETS = 100


def main(commit: str = "") -> None:
    """Print the table."""
    with TemporaryDirectory(prefix="petsync-install-") as name:
        folder = Path(name)
        wanted = {f"petsync{extra}": (SOURCE, extra) for extra in ("", "[sandbox]", "[all]")}
        if commit:
            wanted = {f"petsync at {commit}": (_check_out(commit, folder / "old"), ""), **wanted}
        _pip(folder / "cache", "install", "-qq", "--dry-run", *_words(SOURCE, "[all]"))
        made = {
            title: _Environment(folder / str(n), *wanted[title]) for n, title in enumerate(wanted)
        }
        with _serve(made["petsync[sandbox]"].program, folder) as url:
            for _ in range(RUNS):
                for each in made.values():
                    each.run("--help")
                    each.run("plan", str(folder / "pets.csv"), "--url", url)
        print(f"{'':20}packages  seconds  processor   MB  --help    plan")
        for title, each in made.items():
            print(
                f"{title:20}{each.packages:8}{each.seconds:9.1f}{each.processor:11.1f}"
                f"{each.megabytes:5.0f}{each.times['--help']:8.2f}{each.times['plan']:8.2f}"
            )


class _Environment:
    """A virtual environment with petsync, and what its installation took."""

    def __init__(self, folder: Path, source: Path, extra: str) -> None:
        self._folder = folder
        _pip(folder, "--version")  # makes the environment
        before = _size(folder)
        start, used = time.perf_counter(), _processor_time()
        _pip(folder, "install", "-qq", *_words(source, extra))
        self.seconds = time.perf_counter() - start
        self.processor = _processor_time() - used
        self.megabytes = (_size(folder) - before) / 1e6
        listed = _pip(folder, "list", "--format=freeze").split()
        self.packages = sum(not line.startswith(("pip==", "setuptools==")) for line in listed)
        self.program = folder / "bin" / "petsync"
        self.times: dict[str, float] = {}

    def run(self, *words: str) -> None:
        """Run the command, and keep its least time in seconds by its first word."""
        command = [self.program, *words]
        start = time.perf_counter()
        subprocess.run(command, cwd=self._folder, env=_variables(), check=True, capture_output=True)
        taken = time.perf_counter() - start
        self.times[words[0]] = min(taken, self.times.get(words[0], taken))


def _processor_time() -> float:
    """Return the processor's seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _check_out(commit: str, folder: Path) -> Path:
    command = ["git", "-C", SOURCE, "archive", commit]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def _words(source: Path, extra: str) -> list[str]:
    return ["-c", str(source / ".ci/constraints.txt"), f"{source}{extra}"]


def _pip(folder: Path, *words: str) -> str:
    if not folder.exists():
        venv.create(folder, with_pip=True)
    command = [folder / "bin" / "pip", "--disable-pip-version-check", *words]
    return subprocess.run(
        command, env=_variables(), check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def _variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def _serve(petsync: Path, folder: Path) -> Iterator[str]:
    """Yield the URL of a store in another process, and write a sheet with a change of one pet."""
    pets = [
        {"id": n, "name": f"Pet {n}", "status": "available", "photoUrls": []}
        for n in range(1, PETS + 1)
    ]
    (folder / "seed.json").write_text(json.dumps(pets), "utf-8")
    command = [petsync, "serve", "--no-auth", "--port", "0", "--seed", "seed.json", "--json"]
    with subprocess.Popen(
        command, cwd=folder, env=_variables(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        try:
            lines = iter(server.stdout.readline, b"")
            url = next(line for line in lines if b'"url"' in line).decode().split('"')[3]
            export = [petsync, "export", "pets.csv", "--url", url]
            subprocess.run(export, cwd=folder, env=_variables(), check=True, capture_output=True)
            sheet = folder / "pets.csv"
            sheet.write_text(sheet.read_text("utf-8").replace("Pet 7,", "Rex,"), "utf-8")
            yield url
        finally:
            server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
