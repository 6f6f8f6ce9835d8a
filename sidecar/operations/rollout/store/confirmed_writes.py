"""Repeats a write once if its answer was lost, in a form that stores nothing twice."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeVar

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.operations.record.ports import CommitUnknown

Result = TypeVar("Result")

AGAIN: Final = timedelta(seconds=1)
"""When the caller may try again."""


async def confirmed(write: Callable[[], Awaitable[Result]]) -> Result:
    """Write; if the commit's result is unknown, write once more.

    Args:
        write: idempotent: it finds what is already stored; raises `CommitUnknown` if the store's reply was lost.

    Raises:
        StoreUnavailable: the write failed, or could not be confirmed.
    """
    try:
        return await write()
    except CommitUnknown:
        return await _again(write)


async def confirmed_by(kept: Callable[[], Awaitable[bool]], write: Callable[[], Awaitable[None]]) -> None:
    """Write; if the commit's result is unknown and a repetition conflicts, read back what is stored.

    Args:
        kept: returns whether the stored value is the written one.
        write: compares revisions; raises `CommitUnknown` if the store's reply was lost.

    Raises:
        RevisionConflict: another writer was first; nothing was written.
        StoreUnavailable: the write failed, or could not be confirmed.
    """
    try:
        await write()
    except CommitUnknown:
        try:
            await _again(write)
        except RevisionConflict:
            # The first attempt may have caused the conflict: it succeeded, and only its answer was lost.
            if not await kept():
                raise StoreUnavailable(
                    "it is not known whether the change was kept; read it again", retry_after=AGAIN
                ) from None


async def _again(write: Callable[[], Awaitable[Result]]) -> Result:
    """Write once more. Raises `StoreUnavailable` if the reply is lost again."""
    try:
        return await write()
    except CommitUnknown:
        raise StoreUnavailable("the database does not confirm what is written; ask again", retry_after=AGAIN) from None
