"""The suites that every plugin of the dispatch sidecar runs against itself; loaded by pytest as a plugin.

A plugin's author subclasses one suite and gives it a `bench`, which is how the suite makes the plugin's counterpart
behave. Each case then is an ordinary test:

    class TestMyFlags(FlagBackendSuite):
        closed = frozenset({"hang"})          # abilities that the plugin or its bench does not have

        @pytest.fixture
        def bench(self, tmp_path: Path) -> FlagBackendBench:
            return MyBench(tmp_path)

Suites: `flag_backend.FlagBackendSuite`, `runner.RunnerSuite`, `connector.ConnectorSuite`,
`episode_memory.EpisodeMemorySuite`, `gate_client.GateClientSuite`, `lifecycle_policy.LifecyclePolicySuite`,
`audit_sink.AuditSinkSuite`. `misbehaving` is a plugin of every kind that breaks, hangs, lies, blocks or leaks.
"""

import pytest

pytest.register_assert_rewrite(
    "sidecar_conformance.audit_sink",
    "sidecar_conformance.connector",
    "sidecar_conformance.episode_memory",
    "sidecar_conformance.flag_backend",
    "sidecar_conformance.gate_client",
    "sidecar_conformance.lifecycle_policy",
    "sidecar_conformance.runner",
)
