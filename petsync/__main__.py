"""`python -m petsync`: the command line, which also works without a console script on the path."""

from __future__ import annotations

import os
import sys

__all__ = ["run"]


def run() -> None:
    """Run the command line without importing modules from the current folder.

    `python -m` puts the current folder first on the module path: a `keyring.py` in it would be
    imported.
    """
    here = os.getcwd()  # noqa: PTH109 - pathlib could be imported from this folder
    if not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]
    from petsync.cli import main

    main()


if __name__ == "__main__":
    run()
