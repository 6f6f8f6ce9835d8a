"""Everything that a replay of a turn needs, as one JSON document. Source: PC1-FR-10d."""

from sidecar.core.decoding import from_utf8
from sidecar.core.identifiers import TurnId
from sidecar.core.replaying.document import document_of, document_to_json
from sidecar.operations.record.ports import RecordReads
from sidecar.operations.record.turn_views import unknown


class ExportReplay:
    """The operation of whoever wants to replay a turn elsewhere."""

    def __init__(self, reads: RecordReads) -> None:
        """Join the parts."""
        self._reads = reads

    async def __call__(self, turn_id: TurnId) -> str:
        """Return the document of a turn, as JSON text.

        Raises:
            UnknownTurn: nothing is on record of it.
            StoreUnavailable: nobody can say.
        """
        turn = await self._reads.turn(turn_id)
        if turn is None:
            raise unknown(turn_id)
        attempts = await self._reads.attempts(turn_id)
        return from_utf8(document_to_json(document_of(turn, tuple(attempts))))
