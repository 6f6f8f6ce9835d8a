"""What connectors send beside a request."""

from datetime import timedelta

import pytest

from sidecar.core.identifiers import Principal, ToolId
from sidecar.policy.protocols import EnricherCall
from sidecar.policy.user_headers import headers_on_behalf


@pytest.mark.parametrize(("key", "sent"), [("ik1-0123", "ik1-0123"), (None, None)])
def test_an_idempotency_key_is_passed_on_and_a_read_has_none(key: str | None, sent: str | None) -> None:
    """Under one name for HTTP and gRPC."""
    call = EnricherCall(
        tool_id=ToolId("book"),
        endpoint="http://data",
        domain_type="bookings",
        enricher_id="book",
        principal=Principal("user-ada"),
        arguments_json="{}",
        nonce=None,
        timeout=timedelta(seconds=1),
        idempotency_key=key,
    )

    assert headers_on_behalf(call).get("idempotency-key") == sent
