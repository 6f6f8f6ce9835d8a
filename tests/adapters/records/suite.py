"""Every rule of `sidecar/operations/record/ports.py`, for any database.

    class TestMyRecord(DatabaseSuite):
        @pytest.fixture
        def bench(self) -> RecordBench:
            return MyBench()

PostgreSQL is held to the same cases; where it needs something the embedded databases do not (a lease that runs out),
`RecordBench` says so.
"""

from tests.adapters.records.appending_rules import AppendingRules
from tests.adapters.records.owning_rules import OwningRules
from tests.adapters.records.reading_rules import ReadingRules, RetentionRules


class DatabaseSuite(AppendingRules, OwningRules, ReadingRules, RetentionRules):
    """Subclass it with a fixture `bench` that returns a `RecordBench`."""
