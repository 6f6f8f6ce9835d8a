"""A record whose lists lag behind the journal, as under load."""

from sidecar.adapters.record_memory import MemoryStore
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.projector import Projector
from sidecar.operations.record.rows_in_memory import RowsInMemory
from tests.support.harness import KeepingRecorder


class LaggingLists(MemoryStore):
    """Reads at most one turn beyond the projected ones for a list, so further turns are missing from it.

    Attributes:
        projector: nothing runs it; `catch_up` projects everything.
    """

    def __init__(self) -> None:
        super().__init__()
        self.projector = Projector(self.journal, RowsInMemory(), KeepingRecorder())
        self._lists = TurnListReader(self.projector, most_changes=1)
