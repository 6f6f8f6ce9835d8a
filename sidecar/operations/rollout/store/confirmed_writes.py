"""Writes whose answer may get lost: they are repeated once, in a form that keeps nothing twice."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeVar

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.operations.record.ports import CommitUnknown

Result = TypeVar("Result")

AGAIN: Final = timedelta(seconds=1)


async def confirmed(write: Callable[[], Awaitable[Result]]) -> Result:
    """Write; if nobody can say whether that is kept, write once more.

    Args:
        write: keeps nothing twice, and finds by itself what is kept; raises `CommitUnknown` if the answer was lost.

    Raises:
        StoreUnavailable: it cannot be done, or not be confirmed.
    """
    try:
        return await write()
    except CommitUnknown:
        return await _again(write)


async def confirmed_by(kept: Callable[[], Awaitable[bool]], write: Callable[[], Awaitable[None]]) -> None:
    """Write; if nobody can say whether that is kept, and a repetition is in conflict, look.

    Args:
        kept: says whether what is there is what was written.
        write: compares revisions; raises `CommitUnknown` if the answer was lost.

    Raises:
        RevisionConflict: somebody else was first; nothing is kept.
        StoreUnavailable: it cannot be done, or not be confirmed.
    """
    try:
        await write()
    except CommitUnknown:
        try:
            await _again(write)
        except RevisionConflict:
            if not await kept():
                raise StoreUnavailable(
                    "it is not known whether the change was kept; read it again", retry_after=AGAIN
                ) from None


async def _again(write: Callable[[], Awaitable[Result]]) -> Result:
    try:
        return await write()
    except CommitUnknown:
        raise StoreUnavailable("the database does not confirm what is written; ask again", retry_after=AGAIN) from None
