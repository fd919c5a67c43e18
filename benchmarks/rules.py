"""Rules of one's own: their cost beside the check without rules, and their violations beside
pandera's.

    python benchmarks/rules.py [--rows 100000] [--frames 1000] [--rounds 7] [--python PATH]

A CSV file is checked in rounds, with 20 rules and without, by the command and in Python; the ratio
of the medians of the processor times is the cost. pandera validates the same rows with the same
rules, lazily, after pandas has read the file. Then random frames with random rules are validated by
both, and the violations are compared cell by cell. pandera runs in an environment of its own, which
the script makes in a temporary folder, unless `--python` names the Python of one.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

PANDERA = "pandera[pandas]==0.35.0"
LIMIT = 1.5
"""Limit of the time of the check with 20 rules, divided by that without rules."""
SEED = 20261129
HEADER = ("id", "name", "status", "category", "tags", "Price EUR", "Cost", "Code", "Owner")
OWNERS = ("Ann", "Bob", "Eva", "Jörg", "Mia")
_SPECIES = ("cat", "dog", "fish")
_NAMES = ("Bello", "Luna", "Zoë", "Müsli", "Pip", "Rex", "Max", "Nala")

RULES: tuple[dict[str, Any], ...] = (
    {"columns": ["Price EUR"], "required": True},
    {"columns": ["name"], "required": True},
    {"columns": ["Owner"], "required": True},
    {"columns": ["Code"], "unique": True},
    {"columns": ["name", "Code"], "unique": True},
    {"columns": ["Owner"], "values": [*OWNERS]},
    {"columns": ["status"], "values": ["available", "pending", "sold"]},
    {"columns": ["category"], "values": [*_SPECIES]},
    {"columns": ["Code"], "pattern": "[A-Z]{2}-[0-9]{6}"},
    {"columns": ["name"], "pattern": "[^()]*"},
    {"columns": ["Owner"], "pattern": "[A-Z].*"},
    {"columns": ["name"], "min_length": 2, "max_length": 40},
    {"columns": ["Code"], "max_length": 9},
    {"columns": ["Price EUR"], "minimum": 0, "maximum": 9999},
    {"columns": ["Cost"], "minimum": 0},
    {"columns": ["id"], "minimum": 1},
    {"expression": "[Price EUR] > Cost * 1.05"},
    {"expression": "status != 'sold' or not is_blank(Owner)"},
    {"expression": "category in ('cat', 'dog', 'fish') and length(name) > 1"},
    {"expression": "not contains(name, 'test') and [Price EUR] < 10000"},
)


def main() -> None:
    """Measure the cost, compare the violations, and print whether the goals are met."""
    options = _options()
    if options.pandera:
        _run_pandera()
        return
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or _make_environment(Path(folder, "environment"))
        path = Path(folder, "pets.csv")
        _write(path, options.rows)
        is_met = measure(path, options.rows, options.rounds, python)
        is_met &= compare(options.frames, python)
    sys.exit(0 if is_met else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python", help="the Python of an environment with pandera")
    parser.add_argument("--pandera", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _make_environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    python = str(next(folder.glob("bin/python"), folder / "Scripts" / "python.exe"))
    subprocess.run([python, "-m", "pip", "install", "-q", PANDERA], check=True)
    return python


def _write(path: Path, rows: int) -> None:
    made = random.Random(SEED)
    lines = [",".join(HEADER)]
    for n in range(1, rows + 1):
        cost = made.randint(100, 90_000) / 100
        cells = (
            *(n, f"{made.choice(_NAMES)} {n}", made.choice(("available", "pending", "sold"))),
            *(made.choice(_SPECIES), "calm; small", f"{cost * 1.2:.2f}", f"{cost:.2f}"),
            *(f"AB-{n:06d}", made.choice(OWNERS)),
        )
        lines.append(",".join(map(str, cells)))
    # A few violations, as in a sheet that is in use.
    for n in range(500, rows, 1_000):
        lines[n] = lines[n].replace("AB-", "ab-")
    path.write_text("\n".join(lines) + "\n", "utf-8")


# The cost of 20 rules.


def measure(path: Path, rows: int, rounds: int, python: str) -> bool:
    """Print the cost of the rules, of the command and in Python, beside pandera's; return whether
    the goal is met.
    """
    import petsync as ps

    rules = [ps.types.SheetRule(name=f"rule-{n}", **keys) for n, keys in enumerate(RULES)]
    (path.parent / "without").mkdir()
    (path.parent / "with").mkdir()
    (path.parent / "with" / "petsync.toml").write_text(_toml(rules), "utf-8")
    works: dict[str, Callable[[], Any]] = {
        "petsync check": partial(_check, path, "without"),
        "petsync check, 20 rules": partial(_check, path, "with"),
        "read_sheet": partial(ps.read_sheet, path),
        "read_sheet, 20 rules": partial(ps.read_sheet, path, rules=rules),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, work in works.items():
            clock, processor = time.perf_counter(), _processor_seconds()
            sheet = work()
            times[name].append((time.perf_counter() - clock, _processor_seconds() - processor))
    median = {
        name: [statistics.median(each[at] for each in pairs[1:]) for at in (0, 1)]
        for name, pairs in times.items()
    }
    broken = sum(each.broken for each in sheet.rules)
    print(f"{rows:,} rows, {len(rules)} rules, {broken:,} violations, medians of {rounds} rounds")
    for name, (clock, processor) in median.items():
        print(f"{name:26} {clock:.3f} s, processor {processor:.3f} s")
    peer = _ask(python, {"path": str(path)})
    for name, words in (("read", "pandas, read"), ("validate", "pandera, validate lazily")):
        clock, processor = peer[name]
        print(f"{words:26} {clock:.3f} s, processor {processor:.3f} s")
    (plain, command, read, checked) = (processor for _, processor in median.values())
    is_met = command <= LIMIT * plain
    word = "met    " if is_met else "NOT MET"
    print(f"  {word}  petsync check with 20 rules at most {LIMIT} x: {command / plain:.2f}")
    print(f"  read_sheet with 20 rules beside read_sheet: {checked / read:.2f}")
    return is_met


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _check(path: Path, folder: str) -> None:
    command = [sys.executable, "-m", "petsync", "check", str(path)]
    where = path.parent / folder
    done = subprocess.run(command, cwd=where, capture_output=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"petsync check ended with {done.returncode}")


def _toml(rules: Iterable[Any]) -> str:
    lines = []
    for rule, keys in zip(rules, RULES, strict=True):
        lines += ["[[rules]]", f'name = "{rule.name}"']
        # A text, a list of texts, a number or a flag is the same in JSON and in TOML.
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


# The violations of random frames.

_TEXTS = ("a", "b", "ab", "Ab1", "1", "22", "x y", "é", "AB-000001", "sold")
_KINDS: tuple[Callable[[random.Random], dict[str, Any]], ...] = (
    lambda _: {"required": True},
    lambda _: {"unique": True},
    lambda made: {"values": made.sample(_TEXTS, made.randint(1, 6))},
    lambda made: {"pattern": made.choice(("[ab]+", "a|ab", "[A-Z].*", ".", "\\d+", "(?i:ab.*)"))},
    lambda made: {"min_length": made.randint(0, 2), "max_length": made.randint(2, 5)},
)


def _make_case(made: random.Random) -> dict[str, Any]:
    rows = made.randint(1, 30)
    columns: dict[str, list[Any]] = {
        name: [made.choice((None, *_TEXTS)) for _ in range(rows)] for name in ("One", "Two words")
    }
    columns["Price"] = [
        made.choice((None, made.randint(-9, 99), made.randint(-99, 999) / 10)) for _ in range(rows)
    ]
    rules = []
    for n in range(made.randint(1, 8)):
        column = made.choice([*columns])
        own = made.choice(_KINDS)(made)
        if column == "Price":
            own = {"minimum": made.randint(-5, 5), "maximum": made.randint(6, 90)}
            own = made.choice((own, {"required": True}))
        rules.append({"name": f"r{n}", "columns": [column], **own})
    return {"columns": columns, "rules": rules}


def compare(frames: int, python: str) -> bool:
    """Print whether the violations of random frames are pandera's; return whether all are."""
    import pandas as pd

    from petsync.sheets import sheet_from_frame
    from petsync.types import SheetRule

    made = random.Random(SEED)
    cases = [_make_case(made) for _ in range(frames)]
    theirs = _ask(python, {"cases": cases})["found"]
    differing = violations = 0
    for case, expected in zip(cases, theirs, strict=True):
        size = len(case["columns"]["One"])
        frame = pd.DataFrame({"id": range(1, size + 1), "name": "Rex", **case["columns"]})
        sheet = sheet_from_frame(frame, rules=[SheetRule(**keys) for keys in case["rules"]])
        found = sorted([each.row, each.column, each.rule] for each in sheet.problems if each.is_own)
        violations += len(found)
        if found != sorted(expected):
            differing += 1
            print("differs:", json.dumps(case), found, expected)
    word = "met    " if not differing else "NOT MET"
    print(f"  {word}  {frames:,} random frames, {violations:,} violations: {differing} differ")
    return not differing


def _ask(python: str, question: dict[str, Any]) -> dict[str, Any]:
    command = [python, __file__, "--pandera"]
    text = json.dumps(question)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# pandera's side, in its own environment.


def _run_pandera() -> None:
    question = json.load(sys.stdin)
    if "path" in question:
        answer = _measure_pandera(question["path"])
    else:
        answer = {"found": [[*_violations(case)] for case in question["cases"]]}
    json.dump(answer, sys.stdout)


def _checks(pa: Any, keys: dict[str, Any]) -> list[Any]:
    if "values" in keys:
        return [pa.Check.isin(keys["values"])]
    if "pattern" in keys:
        return [pa.Check.str_matches(rf"(?:{keys['pattern']})\Z")]
    if "min_length" in keys or "max_length" in keys:
        return [pa.Check.str_length(keys.get("min_length"), keys.get("max_length"))]
    if "minimum" in keys:
        return [pa.Check.in_range(keys["minimum"], keys.get("maximum", float("inf")))]
    return []


def _validate(pa: Any, frame: Any, columns: Any, checks: Sequence[Any] = (), **more: Any) -> Any:
    try:
        pa.DataFrameSchema(columns, checks=[*checks], **more).validate(frame, lazy=True)
    except pa.errors.SchemaErrors as error:
        return error.failure_cases
    return None


def _violations(case: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the row, the column and the rule of each violation. Each rule has its own schema,
    because pandera names a check only by its values.
    """
    import pandas as pd
    import pandera.pandas as pa

    frame = pd.DataFrame(case["columns"])
    for name in ("One", "Two words"):
        frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
    frame["Price"] = frame["Price"].astype(float)
    for keys in case["rules"]:
        (column,) = keys["columns"]
        # In pandera, missing values are equal to each other; in petsync, they say nothing.
        rows = frame[frame[column].notna()] if keys.get("unique") else frame
        own = pa.Column(
            checks=_checks(pa, keys),
            nullable=not keys.get("required"),
            unique=bool(keys.get("unique")),
        )
        cases = _validate(pa, rows, {column: own})
        for row in () if cases is None else cases["index"].tolist():
            yield [int(row), column, f"rule:{keys['name']}"]


def _measure_pandera(path: str) -> dict[str, list[float]]:
    """Return the seconds, and the processor's, in which pandas reads the file, and in which pandera
    validates it, with all rules in one schema.
    """
    import pandas as pd
    import pandera.pandas as pa

    read = _time(lambda: pd.read_csv(path))
    frame = pd.read_csv(path)
    columns: dict[str, dict[str, Any]] = {}
    checks = [
        pa.Check(lambda rows: rows["Price EUR"] > rows["Cost"] * 1.05),
        pa.Check(lambda rows: (rows["status"] != "sold") | rows["Owner"].notna()),
        pa.Check(lambda rows: rows["category"].isin(_SPECIES) & (rows["name"].str.len() > 1)),
        pa.Check(
            lambda rows: (
                ~rows["name"].str.contains("test", regex=False) & (rows["Price EUR"] < 10_000)
            )
        ),
    ]
    for keys in RULES:
        if "expression" in keys or len(keys["columns"]) > 1:
            continue
        own = columns.setdefault(keys["columns"][0], {"checks": [], "nullable": True})
        own["checks"] += _checks(pa, keys)
        own["nullable"] &= not keys.get("required")
        own["unique"] = own.get("unique", False) or bool(keys.get("unique"))
    schema = {name: pa.Column(**keys) for name, keys in columns.items()}
    validate = _time(lambda: _validate(pa, frame, schema, checks, unique=["name", "Code"]))
    return {"read": read, "validate": validate}


def _time(work: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(4):
        clock, processor = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - clock, time.process_time() - processor))
    return [statistics.median(each[at] for each in times[1:]) for at in (0, 1)]


if __name__ == "__main__":
    main()
