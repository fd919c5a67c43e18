"""Configuration of the reconciliation: petsync.toml."""
