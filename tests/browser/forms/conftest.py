"""Forms in a real browser: JupyterLab and Voilà beside a running pet store, and nothing else: all
that is asked of any other place is refused and written down, and fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fronts import PATIENCE, Front, Lab, View, Voila, Watch
from jupyters import IPYKERNELS, House
from outside import Outside
from playwright.sync_api import Browser, expect, sync_playwright

from petsync.samples import sample_data
from petsync.sandbox import Sandbox

expect.set_options(timeout=PATIENCE)
CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# What Chromium itself looks for, with or without a page.
_ITS_OWN = ("update.googleapis.com", "accounts.google.com", "content-autofill.googleapis.com")
_ITS_OWN += ("optimizationguide-pa.googleapis.com", "clients2.google.com", "www.google.com")


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    """Every other network."""
    with Outside() as listener:
        yield listener


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, outside: Outside) -> Iterator[House]:
    """The kernels, and what the servers share."""
    made = House(tmp_path_factory.mktemp("house"), outside.url)
    for wanted in IPYKERNELS:
        made.add_kernel(wanted)
    yield made
    made.close()


@pytest.fixture(scope="session")
def browser(outside: Outside) -> Iterator[Browser]:
    """Chromium, which reaches loopback and nothing else."""
    way = f"--proxy-server={outside.url.removeprefix('http://')}"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=[*OPTIONS, way])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def watch() -> Watch:
    """What all pages ask and say."""
    return Watch()


@pytest.fixture(scope="session")
def lab(house: House, browser: Browser, watch: Watch) -> Iterator[Lab]:
    """JupyterLab."""
    server = house.lab(house.folder / "lab-notebooks")
    context = watch.over(browser.new_context(viewport={"width": 1400, "height": 1000}))
    yield Lab(server, context.new_page())
    context.close()


@pytest.fixture(scope="session")
def voila(house: House, browser: Browser, watch: Watch) -> Iterator[Voila]:
    """Voilà."""
    server = house.voila(house.folder / "voila-notebooks")
    context = watch.over(browser.new_context(viewport={"width": 1100, "height": 1000}))
    yield Voila(server, context)
    context.close()


@pytest.fixture
def open_in(
    request: pytest.FixtureRequest, watch: Watch, outside: Outside
) -> Iterator[Callable[..., View]]:
    """Runs a notebook in the front end of this name; the test fails if a page asked anything of a
    network, opened a dialog or met an error.
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
    """A pet store that asks for tokens, with the sample catalogue."""
    with Sandbox(seed=sample_data() / "store.json", client_secret="hush-hush") as sandbox:
        yield sandbox


@pytest.fixture
def connected(box: Sandbox, tmp_path: Path) -> str:
    """A cell that makes `store`, which nobody is signed in to."""
    return f"import petsync as ps\nstore = ps.connect({box.url!r}, state={str(tmp_path)!r})"


@pytest.fixture
def signed_in(box: Sandbox, tmp_path: Path) -> str:
    """A cell that makes `store`, with a token for everything."""
    auth = f"ps.auth.bearer({box.token()!r})"
    return (
        "import petsync as ps\n"
        f"store = ps.connect({box.url!r}, state={str(tmp_path)!r}, auth={auth})"
    )
