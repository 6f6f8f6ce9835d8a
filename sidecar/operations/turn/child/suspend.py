"""What a child that asks back leaves: its question with a receipt, on record with its outcome."""

from datetime import datetime, timedelta

from msgspec import Struct

from sidecar.core.asking.questions import Asked, Question
from sidecar.core.asking.receipts import claims_of, question_of
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims
from sidecar.core.journal.marks import What
from sidecar.operations.turn.state.child import Child


class QuestionDesk(Struct, frozen=True):
    """Signs receipts.

    Attributes:
        lifetime: longest time for which a question can be answered.
    """

    keys: SigningKeys
    lifetime: timedelta

    def suspend(self, child: Child, asked: Asked, turn: SurfaceClaims, now: datetime) -> Question:
        """Return the question with its receipt, and note it in the child's log."""
        lasts = self.lifetime if asked.expires_in is None else min(asked.expires_in, self.lifetime)
        question = question_of(asked, claims_of(asked, child.child_id, turn, child.tool, now + lasts), self.keys)
        texts = question.kind.value, question.text, question.about_json, question.answerer.value
        child.note(now, What.SUSPENDED, *texts, question.expires_at.isoformat(), question.receipt, asked.state)
        return question
