"""Mutated spreadsheets: each gives a sheet or a typed error, within limits of memory and time."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from times import times

pytestmark = pytest.mark.slow

SECONDS = 60.0
"""The limit of processor time in seconds for one small file; it also ends endless loops."""
SHARDS = {"container": times(80), "parts": times(100), "claims": times(150), "text": times(60)}


@pytest.mark.parametrize("kind", SHARDS)
def test_no_bytes_end_in_another_error_or_over_the_cap(tmp_path, kind):
    """Mutated bytes, ZIP headers, XML parts and CSV text give a sheet or a petsync error with file
    name and hint, never another exception, an abort or memory over the limit.
    """
    program = Path(__file__).parent / "support" / "fuzzed.py"
    command = [sys.executable, str(program), kind, str(tmp_path), str(SHARDS[kind])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, ""), lines[-1]
    outcomes = dict(zip(lines[::2], lines[1::2], strict=True))
    assert len(outcomes) == SHARDS[kind]
    assert not {name: each for name, each in outcomes.items() if each[0] not in OUTCOMES}
    assert not {name: each for name, each in outcomes.items() if each[1] > SECONDS}
    # Mutations that are all read, or all refused, would test nothing.
    counts = Counter(became for became, *_ in outcomes.values())
    assert min(counts[became] for became in OUTCOMES) > len(outcomes) // 10


OUTCOMES = ("sheet", "refused")
