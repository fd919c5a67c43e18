"""`python -m petsync`: the command line, which also works without a console script on the path."""

from __future__ import annotations

import os
import sys

__all__ = ["run"]


def run() -> None:
    """Run the command line, and import nothing from the folder where it is started.

    `python -m` puts that folder first on the module path, so that a `keyring.py` in it would run.
    """
    here = os.getcwd()  # noqa: PTH109 - pathlib would be imported from that folder
    if not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]
    from petsync.cli import main

    main()


if __name__ == "__main__":
    run()
