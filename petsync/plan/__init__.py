"""Compare a snapshot with a sheet and make a plan: pure functions and frozen values."""
