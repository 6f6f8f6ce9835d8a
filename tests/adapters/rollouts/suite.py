"""Every rule of `sidecar/operations/rollout/store/ports.py`, for any database.

class TestMyRollouts(RolloutSuite):
    @pytest.fixture
    def bench(self) -> RolloutBench:
        return MyBench()
"""

from tests.adapters.rollouts.auditing_rules import AuditingRules
from tests.adapters.rollouts.decommission_rules import DecommissionRules
from tests.adapters.rollouts.flag_rules import FlagAndDefinitionRules
from tests.adapters.rollouts.pinned_rules import PinnedRules
from tests.adapters.rollouts.retention_rules import RetentionRules
from tests.adapters.rollouts.writing_rules import WritingRules


class RolloutSuite(WritingRules, AuditingRules, FlagAndDefinitionRules, RetentionRules, DecommissionRules, PinnedRules):
    """Subclass it with a fixture `bench` that returns a `RolloutBench`."""
