"""Cancelling: pictures of an upload that are not wanted any more, while it is under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Cancelling"]


class Cancelling:
    """Names the pictures of one upload that are to be left out, by their numbers in `items`. What
    was not sent yet is not sent; a request that is on its way is cut, and the pet then says
    whether it came through. Can be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: set[int] = set()
        self._hear: Callable[[int], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def cancel(self, number: int) -> None:
        """Leave this picture out. Returns at once."""
        with self._lock:
            self._numbers.add(number)
            if self._loop is not None and not self._loop.is_closed() and self._hear is not None:
                self._loop.call_soon_threadsafe(self._hear, number)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def listen(self, hear: Callable[[int], object]) -> None:
        """Call the function on the running loop with each picture from now on."""
        with self._lock:
            self._loop, self._hear = asyncio.get_running_loop(), hear
