"""What every database is held to: the rules of `sidecar/operations/record/ports.py`.

    class TestMyRecord(DatabaseSuite):
        @pytest.fixture
        def bench(self) -> RecordBench:
            return MyBench()

Where several processes may append to one record, `SharedDatabaseSuite`.
"""

from tests.adapters.records.appending_rules import AppendingRules
from tests.adapters.records.list_rules import ListRules, ProjectingRules
from tests.adapters.records.owning_rules import OwningRules
from tests.adapters.records.reading_rules import ReadingRules, RetentionRules
from tests.adapters.records.restart_rules import RestartRules


class DatabaseSuite(AppendingRules, RestartRules, ReadingRules, ListRules, ProjectingRules, RetentionRules):
    """Subclass it with a fixture `bench` that returns a `RecordBench`."""


class SharedDatabaseSuite(DatabaseSuite, OwningRules):
    """The same for a record that several processes append to."""
