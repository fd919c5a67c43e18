"""Run a benchmark, and put what it prints into docs/performance.md.

    python benchmarks/record.py SCRIPT [ARGUMENT ...]      (such as end_to_end.py 1000000)

The page has a place for each script, between `<!-- SCRIPT -->` and `<!-- end -->`. It stays as it
is if the script fails.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def main(script: str, *arguments: str) -> None:
    """Run the script, show its output, and record it."""
    path = Path(__file__).with_name(script)
    command = [sys.executable, "-u", str(path), *arguments]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        sys.exit(process.returncode)
    PAGE.write_text(record(PAGE.read_text("utf-8"), [script, *arguments], lines), "utf-8")


def record(page: str, command: list[str], lines: list[str]) -> str:
    """Return the page with these lines in the place of the script."""
    place = re.compile(rf"(<!-- {re.escape(command[0])} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(page):
        sys.exit(f"{PAGE.name} has no place for {command[0]}")
    where = f"{os.cpu_count()} processors, Python {platform.python_version()}"
    about = f"`python benchmarks/{shlex.join(command)}` on {time.strftime('%Y-%m-%d')}, {where}:"
    block = "\n".join(lines).strip("\n")
    return place.sub(lambda match: f"{match[1]}{about}\n\n```text\n{block}\n```\n{match[2]}", page)


if __name__ == "__main__":
    main(*sys.argv[1:])
