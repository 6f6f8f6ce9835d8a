"""Decides without reading the file whether a key is new, so that new work does not wait for the reader's thread.

This is a Bloom filter. It may report a new key as known, and then the file is read; it never reports a known key as
new. It works only for a file that no other process writes.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from mmap import mmap
from typing import Any, Final

import apsw

from sidecar.adapters.sqlite.engine import SqliteEngine
from sidecar.core.errors import StoreUnavailable

BITS: Final = 1 << 24
"""2 MiB. With a million keys, one look-up in 500 reads the file in vain; with four million, one in 7."""
PROBES: Final = 4
PAGE: Final = 500
"""Keys that one read loads. A read holds the interpreter for about a millisecond. Between two reads, the reader's
thread serves other callers.
"""


class KnownKeys:
    """The keys of a table of one file, as far as needed to tell that a key does not exist.

    Until `load` has read the whole table, no key counts as new.

    Attributes:
        loaded: the whole table was read.

    Args:
        pages: a statement that returns rows of a position and a key, in order of position: those after the position in
            the first parameter, as many as the second parameter says.
        first: a position before all others.
    """

    def __init__(self, pages: str, first: int | str) -> None:
        self._pages, self._first = pages, first
        self._bits = mmap(-1, BITS // 8)  # an anonymous mapping uses memory only for pages that were written
        self._noted: list[str] | None = []
        """Keys that were added while the table is read. Until then only the reader's thread may set bits: setting one
        is a read and a write, so two threads could lose a bit."""
        self.loaded = False

    async def load(self, engine: SqliteEngine) -> None:
        """Read the keys; if the file cannot be read or is closed, each key is looked up in the file instead."""
        last: int | str | None = self._first
        try:
            while last is not None:
                last = await engine.read(partial(self._read_page, after=last))
        except StoreUnavailable:
            self._noted = None
            return
        # Before `loaded` is set: from then on, a missing bit means that the key is new.
        for key in self._noted or ():
            self._add(key)
        self._noted, self.loaded = None, True

    def note(self, key: str) -> None:
        """Add a key before it is written. On the event loop, like `lacks`."""
        if self._noted is not None:
            self._noted.append(key)
        elif self.loaded:
            self._add(key)

    def lacks(self, key: str) -> bool:
        """Return whether a key is certainly not in the file."""
        if not self.loaded:
            return False
        bits = self._bits
        return 0 in [bits[place >> 3] & (1 << (place & 7)) for place in _places(key)]

    def _add(self, key: str) -> None:
        for place in _places(key):
            self._bits[place >> 3] |= 1 << (place & 7)

    def _read_page(self, connection: apsw.Connection, after: int | str) -> int | str | None:
        """Add the keys of a page; return the last position, None at the end. In the reader's thread."""
        rows: Sequence[Any] = connection.execute(self._pages, (after, PAGE)).fetchall()
        for _, key in rows:
            self._add(key)
        last: int | str | None = rows[-1][0] if len(rows) == PAGE else None
        return last


def _places(key: str) -> Sequence[int]:
    """Return the bits of a key: the same in each process, so that counts are reproducible."""
    digest = int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=4 * PROBES).digest(), "big")
    return [digest >> (32 * number) & (BITS - 1) for number in range(PROBES)]
