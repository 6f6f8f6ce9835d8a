"""What a watcher that does not read keeps in the sidecar: one message, whatever its turn holds."""

import sys
from typing import Any, cast

from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.hints import RecordHints
from sidecar.operations.record.read_record import ReadRecord
from sidecar.operations.rules import RecordRules
from tests.support.harness import running_sidecar_for_tests

TURN = TurnId("t-1")
RULES = RecordRules(batch_bytes=1)
"""Each message has one event."""


class SameTurn:
    """A record that has one turn."""

    def __init__(self, turn: StoredTurn) -> None:
        self._turn, self.count = turn, 0

    async def turn(self, turn_id: TurnId) -> StoredTurn:
        """Return it."""
        self.count += 1
        return self._turn


async def test_a_watcher_keeps_one_message_and_not_the_turn() -> None:
    """With the first message in hand, nothing holds the turn that it was read from; then the rest of it follows."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(turn_id=TURN)
        await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        await sidecar.end(bound)
        turn = await sidecar.store.turn(TURN)
        assert turn is not None
        reads = SameTurn(turn)
        watching = ReadRecord(cast("Any", reads), RecordHints(), RULES).watch(TURN, {})
        before = sys.getrefcount(turn)

        first = await anext(watching)

        assert (len(first.events), reads.count, sys.getrefcount(turn)) == (1, 1, before)
        rest = [batch async for batch in watching]
        told = sum(len(batch.events) for batch in (first, *rest))
        assert told == sum(len(child.events) for child in turn.children) > 4
        assert [batch.ended for batch in rest] == [False] * (len(rest) - 1) + [True]


def test_all_watchers_together_keep_a_few_messages() -> None:
    """By default 64 of 256 KiB, 16 MiB; each is written once more for gRPC."""
    rules = RecordRules()
    assert rules.watchers * rules.batch_bytes == 16 * 1024 * 1024
