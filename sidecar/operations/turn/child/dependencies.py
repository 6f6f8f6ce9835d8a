"""What the operations on turns and children need from outside, as one value."""

from msgspec import Struct

from sidecar.operations.ports import Clock, Ids, Randomness, Recorder, Runners, Spawner
from sidecar.operations.record.ports import Store
from sidecar.operations.turn.child.child_reports import ChildReports
from sidecar.operations.turn.child.suspend import QuestionDesk
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.operations.turn.state.tracing import Tracing


class TurnDependencies(Struct, frozen=True):
    """What running children needs from outside."""

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
