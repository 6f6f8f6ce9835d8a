"""Receipts of questions: what they bind, and how keys are rotated."""

from datetime import UTC, datetime, timedelta

from sidecar.core.binding.surface_token import KeySet, SigningKeys
from sidecar.core.dispatching.questions import Asked, QuestionKind
from sidecar.core.dispatching.receipts import ReceiptClaims, claims_of, opened, question_of
from sidecar.core.identifiers import ChildId
from tests.support.builders import a_surface
from tests.support.journal_drafts import some_claims

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD, NEW = b"o" * 32, b"n" * 32


def a_receipt(keys: SigningKeys) -> tuple[str, ReceiptClaims]:
    """Return a receipt, and what it says."""
    asked = Asked(QuestionKind.NEEDS_APPROVAL, "Order two pairs?")
    claims = claims_of(asked, ChildId("child-1"), some_claims(), a_surface("shop").tools[0], NOW + timedelta(hours=1))
    return question_of(asked, claims, keys).receipt, claims


def test_a_receipt_is_valid_until_its_key_is_removed() -> None:
    """A new key signs while the old one still verifies; without the old one the receipt is unknown."""
    receipt, claims = a_receipt(SigningKeys({"old": OLD}, "old"))

    assert opened(receipt, SigningKeys({"new": NEW, "old": OLD}, "new")) == claims
    assert opened(receipt, SigningKeys({"new": NEW}, "new")) is None
    assert opened(receipt, SigningKeys({"old": NEW}, "old")) is None


def test_a_key_id_may_have_two_secrets_for_a_while() -> None:
    """The first one signs, and both verify."""
    both = SigningKeys({"k": [NEW, OLD]}, "k")
    receipts = [a_receipt(SigningKeys({"k": each}, "k"))[0] for each in (OLD, NEW)]

    assert None not in [opened(each, both) for each in receipts]
    assert a_receipt(both)[0] == receipts[1]


def test_adopted_keys_sign_and_verify_from_the_next_call_on() -> None:
    """As at a rotation without a restart."""
    keys = SigningKeys({"old": OLD}, "old")
    before, claims = a_receipt(keys)
    keys.adopt(KeySet({"new": (NEW,), "old": (OLD,)}, "new"))
    after, _ = a_receipt(keys)

    assert [opened(each, keys) for each in (before, after)] == [claims, claims]
    assert opened(after, SigningKeys({"new": NEW}, "new")) == claims


def test_a_text_that_is_signed_for_another_purpose_is_no_receipt() -> None:
    """Surface tokens and receipts have the same keys and cannot stand for each other."""
    keys = SigningKeys({"old": OLD}, "old")
    receipt, claims = a_receipt(keys)

    assert keys.open("surface", receipt) is None
    assert opened(keys.sign("surface", b"{}"), keys) is None
    assert opened(keys.sign("receipt", b"{}"), keys) is None
    assert claims.child_id == "child-1"
