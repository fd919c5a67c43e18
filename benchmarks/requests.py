"""Rate of getPetById: petsync's client compared with other clients, at 32 connections.

    python benchmarks/requests.py [ROUNDS]        (default: 5)

The sandbox serves the sample catalogue in its own process; each contender runs in this process, on
asyncio's own event loop, and requests the same pets. A round runs each contender once, with a fixed
number of requests. Ratios are medians of the ratios in each round: other load on the machine then
affects neighbouring contenders alike. CPU is the time of this process only, so it compares the
clients even where the server is the bottleneck.

No generated client is in the repository: openapi-generator makes it here from the sandbox's own
OpenAPI document (`pip install petsync[bench]` installs the generator, a Java runtime for it, and
the packages that the generated code imports). Without it, or without wrk, those rows are omitted,
with the reason.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import multiprocessing
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import httpx

from petsync.client.api import AsyncApi
from petsync.client.session import Session
from petsync.samples import sample_data

T = TypeVar("T")
Get = Callable[[int], Awaitable[object]]

CONNECTIONS = 32
OURS, DEFAULT, GENERATED = "petsync", "httpx, default transport", "generated, asyncio"
RAW, BLOCKING, WRK = "aiohttp", "generated, urllib3, one by one", "wrk, the server's limit"
LIMITS = {DEFAULT: 8.0, RAW: 0.8, GENERATED: 1.2}
"""The least rate of petsync, as a multiple of that of each."""


@dataclass(frozen=True)
class Contender:
    """A client: `open` yields a function that gets one pet; a round has `requests` requests."""

    name: str
    answer: str
    requests: int
    open: Callable[[str], AbstractAsyncContextManager[Get]]
    connections: int = CONNECTIONS


@dataclass(frozen=True)
class Round:
    """One contender's requests per second, and its CPU in microseconds per request."""

    rate: float
    cpu: float | None = None


def main(rounds: int) -> None:
    """Print the table, the omitted rows, and whether petsync reaches the limits."""
    ids = [pet["id"] for pet in json.loads((sample_data() / "store.json").read_bytes())]
    with server() as url, tempfile.TemporaryDirectory(prefix="petsync-generated-") as folder:
        contenders, missing = own_contenders(), []
        try:
            contenders += generated_contenders(url, Path(folder))
        except (ImportError, OSError, subprocess.CalledProcessError) as error:
            missing.append(f"generated clients: {why(error)}")
        if shutil.which("wrk") is None:
            missing.append(f"{WRK}: it is not on PATH (apt-get install wrk)")
        taken = measure(contenders, url, ids, rounds)
    show(contenders, taken, rounds)
    for line in missing:
        print(f"left out: {line}")


@contextmanager
def server(
    seed: Path | None = None, faults: str | None = None, db: Path | None = None
) -> Iterator[str]:
    """Yield the base URL of a sandbox in its own process, with the sample catalogue or the pets of
    a seed file. With a file for its store it is durable: it answers when a change is on disk.
    """
    here, there = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_serve, args=(there, seed, faults, db), daemon=True)
    process.start()
    there.close()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def measure(
    contenders: list[Contender], url: str, ids: list[int], rounds: int
) -> dict[str, list[Round]]:
    """Return the rounds of each contender, which run in turn, and those of wrk."""
    taken: dict[str, list[Round]] = {contender.name: [] for contender in contenders}
    taken[WRK] = []
    for _ in range(rounds):
        for contender in contenders:
            taken[contender.name].append(asyncio.run(one_round(contender, url, ids)))
        taken[WRK] += wrk(f"{url}/pet/{ids[0]}")
    return taken


async def one_round(contender: Contender, url: str, ids: list[int]) -> Round:
    """Time the contender's requests after its connections are open."""
    async with contender.open(url) as get:
        await drive(get, ids[:100], contender.connections)
        asked = list(islice(cycle(ids), contender.requests))
        # The garbage collector would visit what the other contenders have loaded, too.
        gc.collect()
        gc.freeze()
        begun, cpu = time.perf_counter(), time.process_time()
        await drive(get, asked, contender.connections)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return Round(len(asked) / seconds, 1e6 * cpu / len(asked))


def wrk(url: str) -> list[Round]:
    """Return wrk's rate over the same number of connections, if it is installed."""
    if shutil.which("wrk") is None:
        return []
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", "-d2s", url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Requests/sec:\s*([\d.]+)", output)
    if found is None or "Non-2xx" in output:
        raise RuntimeError(f"wrk was not answered well:\n{output}")
    return [Round(float(found[1]))]


def show(contenders: list[Contender], taken: dict[str, list[Round]], rounds: int) -> None:
    """Print the table with petsync's ratio to each contender."""
    print(f"getPetById, {CONNECTIONS} at a time, medians of {rounds} rounds")
    print(
        f"{'':32}{'read as':>9}{'requests/s':>12}{'µs CPU each':>13}{'petsync/it':>12}{'limit':>7}"
    )
    answers = {contender.name: contender.answer for contender in contenders}
    for name, own in taken.items():
        if not own:
            continue
        limit = f"{LIMITS[name]:.1f}" if name in LIMITS else ""
        cpu = [one.cpu for one in own if one.cpu is not None]
        print(
            f"{name:32}{answers.get(name, 'nothing'):>9}"
            f"{statistics.median(one.rate for one in own):12,.0f}"
            f"{f'{statistics.median(cpu):.0f}' if cpu else '':>13}"
            f"{_ratio(taken, name):12.2f}{limit:>7}"
        )
    judged = {name: limit for name, limit in LIMITS.items() if taken.get(name)}
    are_met = all(_ratio(taken, name) >= limit for name, limit in judged.items())
    rest = "" if len(judged) == len(LIMITS) else " (of those that could be measured)"
    print(f"all limits met: {'yes' if are_met else 'NO'}{rest}")


def own_contenders() -> list[Contender]:
    """Return the contenders that need only petsync's own dependencies."""
    return [
        Contender(OURS, "Pet", 8000, petsync),
        Contender(DEFAULT, "bytes", 500, default_transport),
        Contender(RAW, "bytes", 12000, raw_aiohttp),
    ]


def generated_contenders(url: str, folder: Path) -> list[Contender]:
    """Return the clients that openapi-generator makes from the service's own document."""
    awaited, blocking = generated_packages(url, folder)
    return [
        Contender(GENERATED, "model", 5000, partial(generated_asyncio, awaited)),
        Contender(BLOCKING, "model", 1500, partial(generated_urllib3, blocking), connections=1),
    ]


def generated_packages(url: str, folder: Path) -> tuple[Any, Any]:
    """Make the generated clients on aiohttp and on urllib3 in the folder, and import them."""
    document = folder / "openapi.json"
    document.write_bytes(httpx.get(url.removesuffix("/v2") + "/openapi.json").content)
    sys.path.insert(0, str(folder))
    for library in ("asyncio", "urllib3"):
        generate(document, library, folder)
    return importlib.import_module("pets_asyncio"), importlib.import_module("pets_urllib3")


def generate(document: Path, library: str, folder: Path) -> None:
    """Make the package `pets_<library>` in the folder by openapi-generator for Python."""
    made = folder / f"made-{library}"
    package = f"pets_{library}"
    generator = [sys.executable, "-c", "import openapi_generator_cli as made; made.cli()"]
    options = ["-g", "python", "--library", library, "--package-name", package]
    subprocess.run(
        [*generator, "generate", "-i", str(document), "-o", str(made), *options],
        check=True,
        capture_output=True,
        text=True,
    )
    (made / package).rename(folder / package)


async def drive(
    send: Callable[[T], Awaitable[object]], items: Iterable[T], connections: int
) -> None:
    """Send each item once, over `connections` concurrent workers."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await send(item)

    await asyncio.gather(*(work() for _ in range(connections)))


@asynccontextmanager
async def petsync(url: str) -> AsyncIterator[Get]:
    """Yield a call of petsync's own client."""
    session = Session(url)
    try:
        yield AsyncApi(session).get_pet_by_id
    finally:
        await session.close()


@asynccontextmanager
async def default_transport(url: str) -> AsyncIterator[Get]:
    """Yield a call of httpx with its defaults."""
    async with httpx.AsyncClient() as client:

        async def get(pet_id: int) -> bytes:
            response = await client.get(f"{url}/pet/{pet_id}")
            return response.raise_for_status().content

        yield get


@asynccontextmanager
async def raw_aiohttp(url: str) -> AsyncIterator[Get]:
    """Yield a call of aiohttp with its defaults, which does not parse the body."""
    async with aiohttp.ClientSession() as client:

        async def get(pet_id: int) -> bytes:
            async with client.get(f"{url}/pet/{pet_id}", raise_for_status=True) as response:
                return await response.read()

        yield get


@asynccontextmanager
async def generated_asyncio(package: Any, url: str) -> AsyncIterator[Get]:
    """Yield a call of the generated client on aiohttp."""
    async with package.ApiClient(package.Configuration(host=url)) as client:
        yield package.PetApi(client).get_pet_by_id


@asynccontextmanager
async def generated_urllib3(package: Any, url: str) -> AsyncIterator[Get]:
    """Yield a call of the generated client on urllib3: one thread, one request after another."""
    with package.ApiClient(package.Configuration(host=url)) as client:
        api = package.PetApi(client)

        async def get(pet_id: int) -> object:
            return api.get_pet_by_id(pet_id)

        yield get


def why(error: Exception) -> str:
    """Return the error's last line, with the command that installs the missing package."""
    message = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        message = (error.stderr.strip() or error.stdout.strip() or message).splitlines()[-1]
    return f"{message} (pip install petsync[bench])"


def _serve(ready: Connection, seed: Path | None, faults: str | None, db: Path | None) -> None:
    from petsync.sandbox.app import serve

    serve(
        port=0,
        auth=False,
        seed=seed or sample_data() / "store.json",
        faults=faults,
        db=db,
        on_ready=lambda info: ready.send(info.url),
    )


def _ratio(taken: dict[str, list[Round]], name: str) -> float:
    pairs = zip(taken[OURS], taken[name], strict=True)
    return statistics.median(ours.rate / other.rate for ours, other in pairs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
