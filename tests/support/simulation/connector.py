"""A data service that does what the request's arguments tell it to, right or wrong."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.definitions.cards.card import Card
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherRefused, EnricherReply, RefusalKind

CANARY: Final = "canary-of-somebody-else"
GOOD: Final = ("ok", "partial")
WRONG: Final = ("wrong principal", "two principals", "no principal", "other nonce", "refused as mismatch")
"""Replies that are security incidents. The nonce matters only for the tool that echoes it."""
OTHER: Final = ("error", "other version", "malformed", "schema", "raises", "returns nonsense", "unavailable")
INTERRUPTS: Final = "interrupts"
HANGING: Final = ("hangs", "hangs and clings")
"""The connector takes no notice of the tool's limit; the second, nor of being cancelled."""
REPLIES: Final = (*GOOD, *WRONG, *OTHER)
CLINGS_FOR: Final = 6.0
"""Seconds; twice the tool's limit."""
LONG: Final = 0.4
"""Seconds from which on some replies never come."""


@dataclass(frozen=True, slots=True)
class ChangeAsked:
    """One request that changes something, at the moment at which it came; `call` is that of the parent."""

    call: str
    tool_id: str
    key: str | None
    durable: bool


class ScriptedConnector:
    """The connector of all tools, and the choice of it.

    Attributes:
        calls: what came, in order.
        changes: those of them that change something.
        durable_keys: returns the idempotency keys on record; None: that is not asked.
    """

    def __init__(self, loop: VirtualLoop, counted: Counter[str], asked: Callable[[int], None]) -> None:
        """Begin without calls; `asked` is told the number of each tool call that gets here."""
        self._loop = loop
        self._asked = asked
        self._counted = counted
        self.calls: list[EnricherCall] = []
        self.changes: list[ChangeAsked] = []
        self.durable_keys: Callable[[], Collection[str | None]] | None = None

    def connector_for(self, card: Card, tool_id: str) -> "ScriptedConnector":
        """Return itself."""
        return self

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Answer as told."""
        self.calls.append(call)
        wanted: dict[str, Any] = json.loads(call.arguments_json)
        reply = str(wanted["reply"])
        if "call" in wanted:
            durable = call.idempotency_key in self.durable_keys() if self.durable_keys is not None else True
            self.changes.append(ChangeAsked(str(wanted["call"]), str(call.tool_id), call.idempotency_key, durable))
        else:
            self._asked(int(wanted["number"]))
        self._counted[f"data: {reply}"] += 1
        if reply in HANGING:
            await self._hang(clings=reply != "hangs")
        await asyncio.sleep(float(wanted["takes"]))
        if reply == "raises":
            raise ValueError(CANARY)
        if reply == INTERRUPTS:
            raise KeyboardInterrupt(CANARY)
        if reply == "returns nonsense":
            return CANARY  # type: ignore[return-value]  # what a broken connector does
        if reply == "refused as mismatch":
            return EnricherRefused(RefusalKind.PRINCIPAL_MISMATCH)
        if reply == "unavailable":
            return EnricherRefused(RefusalKind.UNAVAILABLE)
        return EnricherAnswer(_envelope(call, reply))

    async def _hang(self, *, clings: bool) -> None:
        """Answer much too late, or never."""
        until = self._loop.time() + (CLINGS_FOR if clings else 3600.0)
        while self._loop.time() < until:
            try:
                await asyncio.sleep(until - self._loop.time())
            except asyncio.CancelledError:
                if not clings:
                    raise
                self._counted["data: cancelled and went on"] += 1

    async def close(self) -> None:
        """Nothing to release."""


def worse(reply: str, takes: float) -> str:
    """Return what becomes of a reply that was drawn: some never come, some end in an interrupt. Draws nothing."""
    if takes >= LONG:
        return {"error": "hangs", "unavailable": "hangs and clings"}.get(reply, reply)
    return INTERRUPTS if reply == "malformed" and takes > 0.0 else reply


def good_note(principal: str) -> str:
    """Return what a user's own data looks like."""
    return f"data of {principal}"


def _envelope(call: EnricherCall, reply: str) -> bytes:
    right = reply in (*GOOD, "schema", "error", "other version", "malformed")
    right = right or (reply == "other nonce" and call.nonce is None)
    envelope: dict[str, Any] = {
        "domain_type": call.domain_type,
        "enricher_id": call.enricher_id,
        "version": "2.0.0" if reply == "other version" else "1.9.1",
        "principal": "user-else" if reply == "wrong principal" else call.principal,
        "nonce": "another" if reply == "other nonce" else call.nonce,
        "status": reply if reply in ("partial", "error") else "ok",
        "payload": {"note": good_note(call.principal) if right else CANARY},
        "partial": [],
        "cache_meta": {},
    }
    if reply == "no principal":
        del envelope["principal"]
    if reply == "schema":
        envelope["payload"] = {"note": 5}
    text = json.dumps(envelope)
    if reply == "two principals":
        text = text[:-1] + ', "principal": "user-else"}'
    return (text[:-2] if reply == "malformed" else text).encode()
