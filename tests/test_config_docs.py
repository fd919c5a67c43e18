"""docs/config.md and the schema agree with the table of options and with the checks."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from configured import JOB, file_with
from cronsim import CronSim
from test_config import ENVIRON, uncommented
from test_config_mistakes import MISTAKES, Mistake

from petsync.config.load import load
from petsync.config.model import OPTIONS
from petsync.config.schedule import on_calendar
from petsync.config.tools import example, schema, schema_text

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
VALIDATOR = jsonschema.Draft202012Validator(schema())
SAMPLES = sorted((ROOT / "sample_data").rglob("petsync.toml"))


def test_the_page_is_up_to_date() -> None:
    """The tables of config.md are the output of docs/options.py, and every option is in one."""
    made = runpy.run_path(str(DOCS / "options.py"))
    text = (DOCS / "config.md").read_text("utf-8")
    assert text == made["config_page"](text), "run: python docs/options.py"
    for option in OPTIONS:
        assert f"| `{option.name}` | " in text


def test_the_schema_is_up_to_date() -> None:
    """config.schema.json is the output of docs/options.py, and a valid schema."""
    assert (DOCS / "config.schema.json").read_text("utf-8") == schema_text()
    VALIDATOR.check_schema(schema())


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_schema_sees_what_a_schema_can(mistake: Mistake) -> None:
    """The schema finds exactly those mistakes that a JSON Schema can express."""
    if mistake.schema is None:
        with pytest.raises((RecursionError, ValueError), match=r"recursion|4300 digits"):
            VALIDATOR.is_valid(tomllib.loads(mistake.file))
        return
    is_valid = VALIDATOR.is_valid(tomllib.loads(mistake.file))
    assert is_valid is not mistake.schema


@pytest.mark.parametrize("text", [JOB, example(), uncommented(example())], ids=range(3))
def test_the_schema_takes_what_the_checks_take(text: str) -> None:
    """The schema accepts the example, also with every option enabled."""
    VALIDATOR.validate(tomllib.loads(text))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.parent.name)
def test_the_samples_are_right(sample: Path) -> None:
    """Each sample configuration passes the schema and the checks."""
    VALIDATOR.validate(tomllib.loads(sample.read_text("utf-8")))
    environ = {**ENVIRON, "PETSYNC_URL": "https://shop.example/v2"}
    assert load(sample, environ).jobs


def test_the_documents_have_no_mistake(tmp_path: Path) -> None:
    """Each complete file in config.md is a valid configuration."""
    text = (DOCS / "config.md").read_text("utf-8")
    blocks = [part.partition("```")[0] for part in text.split("```toml\n")[1:]]
    whole = [block for block in blocks if "[jobs." in block]
    assert whole
    for block in whole:
        assert load(file_with(tmp_path, block), {}).jobs


def test_systemd_comes_at_the_times_of_cron() -> None:
    """systemd computes the same next ten times as cron for each schedule."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for schedule in ("*/20 8-10 * * 1-5", "5 4 1,15 JAN-MAR *", "0 0 */2 * 0", "7 */6 1-31 2 5"):
        (line,) = on_calendar(schedule)
        command = [
            "systemd-analyze",
            "calendar",
            "--iterations=10",
            f"--base-time={_format_moment(start)}",
        ]
        shown = subprocess.run(
            [*command, line], env={"TZ": "UTC"}, capture_output=True, text=True, check=True
        )
        result = re.findall(r"(?:elapse|Iter. #\d+): \w+ (.*) UTC", shown.stdout)
        cron = CronSim(schedule, start)
        assert result == [_format_moment(next(cron)) for _ in range(10)]


def _format_moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(
    ("schedule", "lines"),
    [
        ("0 2 * * *", ("*-*-* 02:00:00",)),
        ("*/20 8-10 * * 1-5", ("Mon,Tue,Wed,Thu,Fri *-*-* 08,09,10:00,20,40:00",)),
        ("5 4 1,15 JAN *", ("*-01-01,15 04:05:00",)),
        ("0 0 1 * 7", ("*-*-01 00:00:00", "Sun *-*-* 00:00:00")),
        ("0 0 */2 * 0", ("Sun *-*-01,03,05,07,09,11,13,15,17,19,21,23,25,27,29,31 00:00:00",)),
        ("0 0 1-31 * 5", ("*-*-* 00:00:00",)),
        ("* * * * 0-7", ("*-*-* *:*:00",)),
    ],
)
def test_systemd_gets_the_same_times(schedule: str, lines: tuple[str, ...]) -> None:
    """A cron schedule becomes systemd calendar lines; a day of month or weekday becomes two."""
    assert on_calendar(schedule) == lines
