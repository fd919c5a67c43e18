"""Compare plans with random owners of fields with the plain reference of the tests, and the log of
the store with what their runs may change.

Run: `python benchmarks/owners.py --triples 1000000 --runs 500`. A triple is the row of a sheet with
its pet in the export and in the store. The program ends with an error at the first difference, and
names the seed. tests/test_plan_laws.py and tests/test_owners.py do the same with fewer triples.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "support")]

from test_owners import check_log  # noqa: E402 - the path must be set first
from test_plan_laws import check_against_reference  # noqa: E402
from triples import triple_of  # noqa: E402


def compare_triples(least: int, seed: int) -> int:
    """Compare this number of triples at least, in small and in large sheets, from this seed on;
    return the number.
    """
    compared = 0
    while compared < least:
        chance = Random(seed)
        # Large sheets are compared by columns. They are exports: among hundreds of random pets with
        # few names, the rules for look-alikes decide about rows of unknown pets.
        is_large = bool(seed % 2)
        size = 500 if is_large else chance.randrange(1, 7)
        strangers = 0 if is_large else chance.choice([0, 0, 1, 2])
        based = is_large or bool(chance.getrandbits(1))
        triple = triple_of(size, chance, based=based, strangers=strangers, owned=True)
        try:
            check_against_reference(triple)
        except BaseException:
            print(f"seed {seed} differs", file=sys.stderr)
            raise
        compared += len(triple.lines)
        seed += 1
    return compared


def main() -> None:
    """Print what was compared, and the time that it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.process_time()
    triples = compare_triples(options.triples, options.seed)
    seconds = time.process_time() - begun
    print(f"{triples:,} triples equal the reference: {seconds:,.0f} s of processor time")
    begun = time.process_time()
    requests = sum(check_log(options.seed + number) for number in range(options.runs))
    seconds = time.process_time() - begun
    print(
        f"{options.runs:,} runs, {requests:,} requests that changed a pet, none in a field of the "
        f"store: {seconds:,.0f} s"
    )


if __name__ == "__main__":
    main()
