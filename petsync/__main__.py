"""`python -m petsync`: the command line where no console script is on the path."""

from petsync.cli import main

main()
