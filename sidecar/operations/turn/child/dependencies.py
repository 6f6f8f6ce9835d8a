"""The dependencies of the operations on turns and children, as one value."""

from datetime import datetime, timedelta

from msgspec import Struct

from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims
from sidecar.core.dispatching.questions import Asked, Question
from sidecar.core.journal.marks import What
from sidecar.operations.ports import Clock, Ids, Randomness, Recorder, Runners, Spawner
from sidecar.operations.record.ports import Store
from sidecar.operations.turn.child.child_reports import ChildReports
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.operations.turn.state.tracing import Tracing


class QuestionDesk(Struct, frozen=True):
    """Signs the receipts of questions.

    Attributes:
        lifetime: the longest time for which a question can be answered.
    """

    keys: SigningKeys
    lifetime: timedelta

    def suspend(self, child: Child, asked: Asked, turn: SurfaceClaims, now: datetime) -> Question:
        """Return the question of a child with its receipt, and note it in the child's log."""
        from sidecar.core.dispatching.receipts import claims_of, question_of  # noqa: PLC0415  few sub-agents ask back

        # The operator's limit also applies to a sub-agent that wants its question open for longer.
        valid_for = self.lifetime if asked.expires_in is None else min(asked.expires_in, self.lifetime)
        question = question_of(asked, claims_of(asked, child.child_id, turn, child.tool, now + valid_for), self.keys)
        texts = question.kind.value, question.text, question.about_json, question.answerer.value
        child.note(now, What.SUSPENDED, *texts, question.expires_at.isoformat(), question.receipt, asked.state)
        return question


class TurnDependencies(Struct, frozen=True):
    """What running children need from the rest of the process."""

    clock: Clock
    ids: Ids
    chance: Randomness
    spawner: Spawner
    store: Store
    recorder: Recorder
    runners: Runners
    grants: GrantTable
    tracing: Tracing
    reports: ChildReports
    questions: QuestionDesk
