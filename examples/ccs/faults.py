"""Switches for every way a data service can be wrong: per enricher, per principal, for a number of requests."""

import asyncio
from enum import StrEnum, unique

import msgspec


@unique
class FaultKind(StrEnum):
    """What is done instead of a plain, right answer."""

    MARKED = "marked"
    """No fault: the right answer, with the canary in its payload."""
    SLOW = "slow"
    """The right answer, after `delay_seconds` or when the switch is cleared, whichever comes first."""
    DOWN = "down"
    """503 and no envelope."""
    PARTIAL = "partial"
    """`status: partial` with one failed, uncritical source."""
    ERROR = "error"
    """`status: error` with a critical failed source and no payload."""
    WRONG_PRINCIPAL = "wrong_principal"
    """An envelope and payload of `answer_as`, another user; with `status` also as partial or error."""
    WRONG_MAJOR = "wrong_major"
    """The payload's version has another major part."""
    BREAKING = "breaking"
    """An atomic break without notice: `status` and `payload` have new names, the version is as before."""
    INVALID_PAYLOAD = "invalid_payload"
    """The payload does not fit its schema."""
    WRONG_KEY = "wrong_key"
    """The envelope is of another `(domain_type, enricher_id)` than was asked for."""
    NO_ENVELOPE = "no_envelope"
    """The payload alone, as of a service that forgets the envelope."""
    MALFORMED = "malformed"
    """The JSON ends half way."""
    DUPLICATE_KEYS = "duplicate_keys"
    """Two members of one name: in `where`, the principal, the envelope or the payload."""
    OVERSIZE = "oversize"
    """A body of 2 MiB, sent in pieces and without a length."""
    GZIP_BOMB = "gzip_bomb"
    """A few KiB that decompress to 16 MiB."""
    REPLAY = "replay"
    """The right principal, but another request's nonce and another user's payload."""
    BAD_SIGNATURE = "bad_signature"
    """The right answer; one byte of its payload was altered after it was signed."""
    UNSIGNED = "unsigned"
    """The right answer without a signature."""
    MISSING_PRINCIPAL = "missing_principal"
    """400 missing_principal, whatever was sent."""
    PRINCIPAL_MISMATCH = "principal_mismatch"
    """403 principal_mismatch, whatever was sent."""


@unique
class Where(StrEnum):
    """Which member a `duplicate_keys` fault doubles."""

    PRINCIPAL = "principal"
    ENVELOPE = "envelope"
    PAYLOAD = "payload"


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One switch.

    Attributes:
        enricher_id, principal: which requests it applies to; None: all.
        skip: requests that fit but are still answered rightly, before the fault starts.
        times: how many requests it applies to; None: until it is cleared.
        canary: text that is put into the payload, `cache_meta` and `partial[]`, so that a test can search for it.
        answer_as: the other user, for `wrong_principal`, `replay` and `duplicate_keys`.
        status: for `wrong_principal`: `ok`, `partial` or `error`.
    """

    kind: FaultKind
    enricher_id: str | None = None
    principal: str | None = None
    skip: int = 0
    times: int | None = None
    canary: str = ""
    answer_as: str = "user-somebody-else"
    status: str = "ok"
    where: Where = Where.PRINCIPAL
    delay_seconds: float = 30.0


class FaultBoard:
    """The switches that are set. The first that fits a request decides.

    Attributes:
        delaying: set as soon as a slow answer waits, so that a test knows when the call is under way.
    """

    def __init__(self) -> None:
        self.delaying = asyncio.Event()
        self._set: list[Fault] = []
        self._seen: list[int] = []
        self._cleared = asyncio.Event()

    def set(self, fault: Fault) -> None:
        """Add a switch after those already set."""
        self._set.append(fault)
        self._seen.append(0)

    def clear(self) -> None:
        """Remove all switches; slow answers that are waiting are given at once."""
        self._set.clear()
        self._seen.clear()
        self._cleared.set()
        self._cleared = asyncio.Event()

    def take(self, enricher_id: str, principal: str) -> Fault | None:
        """Return the fault for one request, and count the request."""
        for index, fault in enumerate(self._set):
            if fault.enricher_id not in {None, enricher_id} or fault.principal not in {None, principal}:
                continue
            self._seen[index] += 1
            applied = self._seen[index] - fault.skip
            if applied >= 1 and (fault.times is None or applied <= fault.times):
                return fault
        return None

    async def delay(self, fault: Fault) -> None:
        """Wait as a slow answer does."""
        self.delaying.set()
        try:
            async with asyncio.timeout(fault.delay_seconds):
                await self._cleared.wait()
        except TimeoutError:
            return
