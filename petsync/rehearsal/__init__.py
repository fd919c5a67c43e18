"""A plan tried out on a copy of the store, before anything is sent to the store itself."""

from petsync.rehearsal.rehearsing import rehearse

__all__ = ["rehearse"]
