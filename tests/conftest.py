"""Options, order and fixtures of all tests."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import certifi
import pytest
from crash import forked
from crash.running import Nursery
from hypothesis import settings
from ports import use_unix_sockets
from times import times

# Tests that a script starts in the background, or with nohup, would inherit ignored signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# There is no deadline, because a shared machine may be slow. In CI the examples are always the
# same.
settings.register_profile(
    "petsync", deadline=None, max_examples=times(30), derandomize="CI" in os.environ
)
settings.load_profile("petsync")

# Temporary files are in memory if there is room. Waiting for the disk proves nothing: the tests
# kill processes, never the machine.
_MEMORY, _ENOUGH = Path("/dev/shm"), 4 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK | os.X_OK)
    and shutil.disk_usage(_MEMORY).free > _ENOUGH
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# One thread per process for Arrow's calls: the workers already use all processors.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Each user's notes on journals are in a temporary folder, separate for each test.
_USERS = tempfile.TemporaryDirectory(prefix="petsync-users-", ignore_cleanup_errors=True)
_NUMBERS = itertools.count()
os.environ["XDG_STATE_HOME"] = _USERS.name

# One authority to trust instead of all, because each client of httpx loads them, in 25 ms. No test
# reaches another host.
_TRUSTED = Path(_USERS.name, "trusted.pem")
_FIRST, _END, _ = Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----")
_TRUSTED.write_text(f"{_FIRST}{_END}\n", encoding="utf-8")
os.environ["SSL_CERT_FILE"] = str(_TRUSTED)

use_unix_sockets(Path(_USERS.name))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the crash tests and of the simulated nights and rounds."""
    group = parser.getgroup("petsync")
    group.addoption("--crash-rounds", type=int, default=64, help="rounds of the crash test [64]")
    group.addoption("--crash-seed", type=int, help="this round of the crash test alone")
    group.addoption("--nights-seeds", type=int, default=1, help="seeds of the thirty nights [1]")
    group.addoption("--nights-seed", type=int, help="the thirty nights of this seed alone")
    group.addoption("--rounds", type=int, default=12, help="killed two-way rounds of a seed [12]")
    group.addoption("--rounds-seed", type=int, help="the killed two-way rounds of this seed alone")
    result = "with --rounds-seed: people also apply, undo and resume by hand between the rounds"
    group.addoption("--rounds-by-hand", action="store_true", help=result)


# xdist distributes modules and classes in the order of collection. A quick one for each worker
# shows progress at once; then the longest begin, so that all workers end together.
QUICK = ("test_plan_table", "test_guard", "test_cells", "test_wire_calls")
LONGEST = (
    "test_reconcile_agreed",
    "test_browser_forms",
    "test_reconcile_columns",
    "test_lineage",
    "test_nights",
    "test_rounds",
    "test_crash",
    "test_reconcile_backup",
    "test_browser",
    "test_sheets_fuzz",
    "test_decoys",
    "test_interrupt",
    "test_reconcile_moved",
    "test_plan_laws",
    "test_walls",
    "test_undo_store",
    "test_rehearsal",
    "test_compare",
    "test_resolve",
    "test_flow_rate",
    "test_sheets_round_trip",
    "test_cli_files",
    "test_cli_app",
    "test_crash_world",
    "test_crash_states",
    "ipynb",
)


def pytest_configure(config: pytest.Config) -> None:
    """Let Python write bytecode even if the environment disables it. Without it, each process
    compiles petsync again, and each worker rewrites the asserts of all modules.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    """Exempt the collected tests and the loaded modules from garbage collection, because a worker
    has millions of such objects, and each full collection would visit them again. Collect less
    often than by default.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def pytest_unconfigure() -> None:
    """Remove the users' state folders, because a worker ends without the usual clean-up."""
    _USERS.cleanup()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker load the modules of a folder from a different position. Rewriting the asserts
    is half of the collection, and the other workers read the result.
    """
    report = yield
    if isinstance(collector, pytest.Dir) and "PYTEST_XDIST_WORKER" in os.environ:
        worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        found = report.result
        first = worker * len(found) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = [*found[first:], *found[:first]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort quick modules first, then the longest, then other slow ones; tests of a module keep
    their order. Notebooks are slow.
    """
    places = {name: place for place, name in enumerate((*QUICK, *LONGEST))}

    def place(item: pytest.Item) -> tuple[int, bool, Path]:
        is_fast = item.get_closest_marker("slow") is None
        return places.get(_module(item), len(places)), is_fast, item.path

    for item in items:
        if _module(item) == "ipynb":
            item.add_marker("slow")
    items.sort(key=place)


def _module(item: pytest.Item) -> str:
    return "ipynb" if item.path.suffix == ".ipynb" else item.path.stem


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[object]) -> None:
    """Show what the workers do until the first dot."""
    _show(config, f"{len(specs)} workers collect the tests; each dot after that is a passed test")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Show that a worker is ready."""
    _show(node.config, f"{node.gateway.id} is ready for {len(ids):,} tests")


def _show(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(line, flush=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Set the seeds of the nights, the rounds and the crash tests; crash seeds are in groups of
    four.
    """
    if "nights_seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--nights-seed")
        all_ = range(metafunc.config.getoption("--nights-seeds"))
        metafunc.parametrize("nights_seed", all_ if only is None else [only])
    if "rounds_seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--rounds-seed")
        metafunc.parametrize("rounds_seed", range(4) if only is None else [only])
        metafunc.parametrize("rounds", [metafunc.config.getoption("--rounds")])
        is_by_hand = only is None or metafunc.config.getoption("--rounds-by-hand")
        metafunc.parametrize(
            "has_commands", [is_by_hand], ids=["by-hand" if is_by_hand else "rounds"]
        )
    if "crash_seeds" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--crash-seed")
        half = range((metafunc.config.getoption("--crash-rounds") + 1) // 2)
        fours = [half[first : first + 4] for first in half[::4]] if seed is None else [[seed]]
        ids = [f"{each[0]}-{each[-1]}" for each in fours]
        metafunc.parametrize("crash_seeds", [[*each] for each in fours], ids=ids)


@pytest.fixture(autouse=True)
def _user_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a separate user state folder, so that it knows no journal of other tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(Path(_USERS.name, str(next(_NUMBERS)))))


@pytest.fixture
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export and compare folders in 8 parts by default instead of 64: tests have few pets, and each
    part takes as long as all of them.
    """
    from petsync.store import folders
    from petsync.store.async_store import AsyncStore

    monkeypatch.setattr(folders, "PARTS", 8)
    for method in (AsyncStore.export_to, AsyncStore.snapshot_to):
        monkeypatch.setitem(method.__kwdefaults__, "partitions", 8)


@pytest.fixture(scope="session")
def nursery() -> Nursery:
    """Return the starter of commands as separate processes, which leaves none running."""
    return forked.nursery()


def pytest_sessionfinish() -> None:
    """End the process from which commands were forked, if it was started."""
    if forked.nursery.cache_info().currsize:
        forked.nursery().__exit__(None, None, None)
