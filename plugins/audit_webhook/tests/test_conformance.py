"""The audit sink `webhook` passes the suite that every sink has to, over real HTTP."""

from pathlib import Path

import pytest

from plugins.audit_webhook.tests.receiver import WebhookBench
from sidecar_conformance.audit_sink import AuditSinkSuite


class TestWebhook(AuditSinkSuite):
    """Against a receiver that checks signatures."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> WebhookBench:
        """Make one."""
        return WebhookBench(tmp_path)
