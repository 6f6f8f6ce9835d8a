"""Signatures to the letter, and which answers need one; which reasons are incidents."""

import hmac

import pytest

from sidecar.core.envelopes import Withheld, WithholdReason
from sidecar.core.envelopes.signatures import SignatureRules, signature_of
from sidecar.core.envelopes.verdicts import REMEDY_OF_REASON, SECURITY_REASONS
from sidecar.core.identifiers import Vertical
from tests.unit.envelopes.building import tool


def test_a_signature_is_spelled_as_documented() -> None:
    """Version, key id, 64 lower-case digits; a key that is not there signs nothing."""
    rules = SignatureRules(keys={"k": b"key"})
    made = f"v1:k:{hmac.digest(b'key', b'text', 'sha256').hex()}"
    assert signature_of(b"text", "k", b"key") == made
    assert rules.is_genuine(b"text", made)
    for wrong in (None, "", "v1", made.replace("v1", "v2"), made.replace(":k:", ":x:"), made.upper(), made + "0"):
        assert not rules.is_genuine(b"text", wrong)


def test_rotated_keys_count_from_the_next_answer_on() -> None:
    """A signature under a key that has gone is no longer genuine."""
    rules = SignatureRules(keys={"old": b"key"})
    rules.adopt({"new": b"newer"})

    assert rules.is_genuine(b"text", signature_of(b"text", "new", b"newer"))
    assert not rules.is_genuine(b"text", signature_of(b"text", "old", b"key"))


def test_a_colon_ends_the_id_of_a_key() -> None:
    """A key whose id has one signs nothing."""
    rules = SignatureRules(keys={"a:b": b"key"})
    assert not rules.is_genuine(b"text", signature_of(b"text", "a:b", b"key"))


def test_the_connector_of_a_tool_comes_before_that_of_its_vertical() -> None:
    """And that before the default."""
    shop = Vertical("shop")
    rules = SignatureRules(connectors=("a",), connector_of={shop: "a"}, default_connector="b")
    assert rules.check_for(shop, tool()) == rules.is_genuine
    assert rules.check_for(shop, tool(connector="b")) is None
    assert rules.check_for(Vertical("other"), tool()) is None
    assert SignatureRules(verticals=("shop",)).check_for(shop, tool()) is not None
    assert SignatureRules().check_for(shop, tool()) is None


@pytest.mark.parametrize("reason", WithholdReason)
def test_every_reason_has_a_remedy_and_five_are_incidents(reason: WithholdReason) -> None:
    """Another user's data, no user's, another request's, a forged one, and a refusal for the principal."""
    incidents = {"principal_mismatch", "principal_absent", "nonce_mismatch", "signature_invalid", "principal_refused"}
    assert Withheld(reason).security == (reason in SECURITY_REASONS) == (reason.value in incidents)
    assert len(REMEDY_OF_REASON[reason]) > 20
