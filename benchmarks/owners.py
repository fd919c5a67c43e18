"""Compare plans with random owners of fields with the plain reference of the tests, and the log of
the store with what their runs may change.

Run: `python benchmarks/owners.py`, which takes about ten minutes and needs the packages of the
tests (`pip install -e '.[test]'`). A triple is the row of a sheet with its pet in the export, if
there is one, and in the store; each row of a sheet counts as one. Half of the sheets have up to 8
rows and are compared row by row, half have hundreds and are compared by columns; half carry an
export, and some have rows of unknown pets. All rows of a sheet have the same owners. Sheets in
which ids seem to have moved without their rows do not count, because the reference has no rule for
them (tests/test_ways_out.py has theirs), nor do sheets in which petsync recognises other pets that
are as good in the rows without an id. The program ends with an error at the first difference, and
names the seed. tests/test_plan_laws.py and tests/test_owners.py do the same with fewer triples.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "support")]

from test_owners import check_log  # noqa: E402 - the path must be set first
from test_plan_laws import check_against_reference  # noqa: E402
from triples import triple_of  # noqa: E402

LARGE = 300


def compare_triples(least: int, seed: int) -> tuple[int, int]:
    """Compare this number of triples at least, from this seed on. Return the number, and that of
    the triples that do not count.
    """
    compared = left_out = 0
    while compared < least:
        chance = Random(seed)
        # A row is compared with up to 100 pets of its name, and the pets have four names.
        is_large = bool(seed % 2)
        size = LARGE if is_large else chance.randrange(1, 7)
        strangers = chance.choice([0, 0, 30] if is_large else [0, 0, 1, 2])
        based = bool(chance.getrandbits(1))
        triple = triple_of(size, chance, based=based, strangers=strangers, owned=True)
        try:
            counts = check_against_reference(triple)
        except BaseException:
            print(f"seed {seed} differs", file=sys.stderr)
            raise
        compared += len(triple.lines) if counts else 0
        left_out += 0 if counts else len(triple.lines)
        seed += 1
    return compared, left_out


def count_changes(seed: int) -> int:
    """Check the requests of a run. Return the number of those that changed a pet."""
    with tempfile.TemporaryDirectory() as state:
        return check_log(seed, Path(state))


def main() -> None:
    """Print what was compared, and the time that it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.process_time()
    triples, left_out = compare_triples(options.triples, options.seed)
    seconds = time.process_time() - begun
    print(
        f"{triples:,} triples equal the reference, {left_out:,} in sheets with moved ids or other "
        f"pets do not count: {seconds:,.0f} s of processor time",
        flush=True,
    )
    begun = time.process_time()
    requests = sum(count_changes(options.seed + number) for number in range(options.runs))
    seconds = time.process_time() - begun
    print(
        f"{options.runs:,} runs, {requests:,} requests that changed a pet, none in a field of the "
        f"store: {seconds:,.0f} s"
    )


if __name__ == "__main__":
    main()
