"""What the operations on turns and children need from outside, as one value."""

from dataclasses import dataclass

from sidecar.operations.child_reports import ChildReports
from sidecar.operations.grant_table import GrantTable
from sidecar.operations.ports import Chance, Clock, Ids, Recorder, Runners, Spawner
from sidecar.operations.record_ports import Store
from sidecar.operations.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Outside:
    """What running children needs from outside."""

    clock: Clock
    ids: Ids
    chance: Chance
    spawner: Spawner
    store: Store
    recorder: Recorder
    runners: Runners
    grants: GrantTable
    tracing: Tracing
    reports: ChildReports
