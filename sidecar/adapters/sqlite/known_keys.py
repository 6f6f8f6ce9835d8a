"""Tells, without a read of the database, that a key is certainly new. New work then need not wait for a read.

This is a Bloom filter. It may report a new key as known, and the database is then read. It never reports a known key as
new. It works only for a database that no other process writes.
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
"""Size of the filter, 2 MiB. With a million keys, one look-up of a new key in 500 reads the database in vain; with four
million keys, one in 7."""
PROBES: Final = 4
"""Bits for each key."""
PAGE: Final = 500
"""Keys that one read loads. For about a millisecond no other Python code runs then. Between two reads, the reader's
thread serves other callers."""


class KnownKeys:
    """A filter with the keys of one table. Until `load` has read the whole table, no key counts as new.

    Attributes:
        loaded: whether the whole table was read.

    Args:
        pages: a statement that returns a page of the table, as rows of a position and a key in order of position. Its
            first parameter is the position after which the page begins, the second one the number of rows.
        first: a position before all others.
    """

    def __init__(self, pages: str, first: int | str) -> None:
        self._pages, self._first = pages, first
        self._bits = mmap(-1, BITS // 8)  # an anonymous mapping uses memory only for pages that were written
        self._noted: list[str] | None = []
        """Keys that were added while the table is read. During this time only the reader's thread sets bits: setting a
        bit is a read and a write, so two threads could lose one."""
        self.loaded = False

    async def load(self, engine: SqliteEngine) -> None:
        """Read all keys of the table. If this fails, the filter is not used, and each key is looked up in the table."""
        last: int | str | None = self._first
        try:
            while last is not None:
                last = await engine.read(partial(self._read_page, after=last))
        except StoreUnavailable:
            self._noted = None  # otherwise `note` would collect keys for the rest of the process
            return
        # Before `loaded` is set, because from then on a missing bit means that the key is new.
        for key in self._noted or ():
            self._add(key)
        self._noted, self.loaded = None, True

    def note(self, key: str) -> None:
        """Add a key, before it is written to the table. Call this on the event loop, like `lacks`."""
        if self._noted is not None:
            self._noted.append(key)
        elif self.loaded:
            self._add(key)

    def lacks(self, key: str) -> bool:
        """Return whether a key is certainly not in the table."""
        if not self.loaded:
            return False
        bits = self._bits
        # One missing bit proves that the key was never added. Four set bits may come from other keys.
        return 0 in [bits[place >> 3] & (1 << (place & 7)) for place in _places(key)]

    def _add(self, key: str) -> None:
        for place in _places(key):
            self._bits[place >> 3] |= 1 << (place & 7)

    def _read_page(self, connection: apsw.Connection, after: int | str) -> int | str | None:
        """Add the keys of a page, in the reader's thread. Return the last position of the page; None at the end."""
        rows: Sequence[Any] = connection.execute(self._pages, (after, PAGE)).fetchall()
        for _, key in rows:
            self._add(key)
        last: int | str | None = rows[-1][0] if len(rows) == PAGE else None
        return last


def _places(key: str) -> Sequence[int]:
    """Return the positions of the bits of a key. They are the same in each process, so that tests are reproducible."""
    # A key may come from a client and contain a lone surrogate, for which a plain `encode` raises an error.
    digest = int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=4 * PROBES).digest(), "big")
    return [digest >> (32 * number) & (BITS - 1) for number in range(PROBES)]
