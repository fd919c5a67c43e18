"""Forms in a real browser: JupyterLab and Voilà with a running pet store.

Each request to another host is refused and recorded, and fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import open_chromium
from fronts import PATIENCE, PATIENT, Front, Lab, View, Voila, Watch
from jupyters import IPYKERNELS, House
from outside import Outside
from playwright.sync_api import Browser, expect

from petsync.samples import sample_data
from petsync.sandbox import Sandbox

expect.set_options(timeout=PATIENCE)
# Chromium requests these hosts itself, with or without a page.
_ITS_OWN = ("update.googleapis.com", "accounts.google.com", "content-autofill.googleapis.com")
_ITS_OWN += ("optimizationguide-pa.googleapis.com", "clients2.google.com", "www.google.com")


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    """Yield the proxy that records and refuses requests to other hosts."""
    with Outside() as listener:
        yield listener


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, outside: Outside) -> Iterator[House]:
    """Yield the folder and the kernels that the servers share."""
    made = House(tmp_path_factory.mktemp("house"), outside.url)
    for wanted in IPYKERNELS:
        made.add_kernel(wanted)
    yield made
    made.close()


@pytest.fixture(scope="session")
def browser(outside: Outside) -> Iterator[Browser]:
    """Yield Chromium, which reaches only loopback."""
    way = f"--proxy-server={outside.url.removeprefix('http://')}"
    with open_chromium(way) as chromium:
        yield chromium


@pytest.fixture(scope="session")
def watch() -> Watch:
    """Return the recorder of the requests and errors of all pages."""
    return Watch()


@pytest.fixture(scope="session")
def lab(house: House, browser: Browser, watch: Watch) -> Iterator[Lab]:
    """Yield a running JupyterLab."""
    server = house.lab(house.folder / "lab-notebooks")
    context = watch.over(browser.new_context(viewport={"width": 1400, "height": 1000}))
    context.add_init_script(PATIENT)
    yield Lab(server, context.new_page())
    context.close()


@pytest.fixture(scope="session")
def voila(house: House, browser: Browser, watch: Watch) -> Iterator[Voila]:
    """Yield a running Voilà."""
    server = house.voila(house.folder / "voila-notebooks")
    context = watch.over(browser.new_context(viewport={"width": 1100, "height": 1000}))
    context.add_init_script(PATIENT)
    yield Voila(server, context)
    context.close()


@pytest.fixture
def open_in(
    request: pytest.FixtureRequest, watch: Watch, outside: Outside
) -> Iterator[Callable[..., View]]:
    """Yield a function that runs a notebook in the front end of this name. The test fails if a page
    sent a request to another host, opened a dialog or had an error.
    """
    watch.asked.clear()
    watch.unrest.clear()
    outside.asked.clear()
    opened: list[tuple[Front, View]] = []

    def run(front: str, *cells: str, **more: str) -> View:
        place = request.getfixturevalue(front)
        name = f"{request.node.originalname}-{len(opened)}-{abs(hash(request.node.nodeid)) % 9999}"
        view = place.open(name, cells, **more)
        opened.append((place, view))
        return view

    yield run
    for place, view in opened:
        place.close(view)
    asked = [line for line in outside.asked if not any(name in line for name in _ITS_OWN)]
    assert (watch.asked, asked) == ([], [])
    assert watch.unrest == []


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a pet store that requires tokens, with the sample catalogue."""
    with Sandbox(seed=sample_data() / "store.json", client_secret="hush-hush") as sandbox:
        yield sandbox


@pytest.fixture
def connected(box: Sandbox, tmp_path: Path) -> str:
    """Return a cell that creates `store` without a sign-in."""
    return f"import petsync as ps\nstore = ps.connect({box.url!r}, state={str(tmp_path)!r})"


@pytest.fixture
def signed_in(box: Sandbox, tmp_path: Path) -> str:
    """Return a cell that creates `store` with a token for all scopes."""
    auth = f"ps.auth.bearer({box.token()!r})"
    return (
        "import petsync as ps\n"
        f"store = ps.connect({box.url!r}, state={str(tmp_path)!r}, auth={auth})"
    )
