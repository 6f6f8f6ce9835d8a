"""What becomes of progress reports."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.dispatching.frames import StatusUpdate
from sidecar.core.identifiers import CallId, Slot
from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary
from sidecar.core.status_events.relay import ChildReporter, StatusRelay, TokenBucket
from tests.support.requirement import requirement

SHOP = ChildReporter(0, CallId("c0"), Slot("shop"))
REWARDS = ChildReporter(1, CallId("c1"), Slot("rewards"))
RULES = {
    "searching_offers": EventRule(),
    "calling_model": EventRule(Handling.TRANSFORM, becomes="still_working"),
    "debugging": EventRule(Handling.SUPPRESS),
    "looking_up": EventRule(Handling.BATCH, window=timedelta(seconds=2)),
}


def a_relay(**bucket: float) -> StatusRelay:
    """Return a relay with the rules above."""
    return StatusRelay(Vocabulary(RULES, **bucket))  # type: ignore[arg-type]  # int is a float here


@requirement("PC2-D-21")
@pytest.mark.parametrize("reporter", [SHOP, REWARDS])
@pytest.mark.parametrize(
    ("event_type", "decision", "passed_on"),
    [
        ("searching_offers", "forward", "searching_offers"),
        ("calling_model", "transform", "still_working"),
        ("debugging", "suppress", None),
        ("looking_up", "batch", None),
    ],
)
def test_the_policy_goes_by_type_not_by_sub_agent(
    reporter: ChildReporter, event_type: str, decision: str, passed_on: str | None
) -> None:
    """Each of the four outcomes, the same for both sub-agents."""
    decided, update = a_relay().offer(reporter, event_type, {}, now=0.0)

    assert decided == decision
    assert (update.type if update else None) == passed_on


def test_a_rule_for_what_is_no_identifier_is_none() -> None:
    """Prose in the vocabulary is prose even so."""
    rules = {name: EventRule() for name in ("Searching offers", "ab", "searching_offers", "searching_offers\n")}
    vocabulary = Vocabulary(rules)

    assert vocabulary.rules == {"searching_offers": EventRule()}
    assert StatusRelay(vocabulary).offer(SHOP, "Searching offers", {}, now=0.0) == ("unknown", None)


@requirement("PC2-T-31")
@given(st.text().filter(lambda text: text not in RULES))
def test_whatever_is_not_in_the_vocabulary_is_dropped(event_type: str) -> None:
    """Unknown identifiers and prose alike; counted as unknown, never passed on."""
    relay = a_relay()

    assert relay.offer(SHOP, event_type, {}, now=0.0) == ("unknown", None)
    assert relay.flush(float("inf")) == []


@requirement("PC2-D-20")
def test_a_batch_collapses_siblings_in_emission_order() -> None:
    """Three reports of two sub-agents within the window leave as one, naming each once."""
    relay = a_relay()
    relay.offer(REWARDS, "looking_up", {"what": "points"}, now=0.0)
    relay.offer(SHOP, "looking_up", {"what": "offers"}, now=1.0)
    relay.offer(REWARDS, "looking_up", {"what": "tiers"}, now=1.5)

    assert relay.next_due() == 2.0
    assert relay.flush(1.9) == []
    assert relay.flush(2.0) == [StatusUpdate(None, "looking_up", (Slot("shop"), Slot("rewards")), 3, {"what": "tiers"})]
    assert relay.next_due() is None


def test_a_batch_of_one_call_keeps_its_call_id() -> None:
    """Then the client knows whose line it is."""
    relay = a_relay()
    relay.offer(SHOP, "looking_up", {}, now=0.0)
    relay.offer(SHOP, "looking_up", {}, now=0.1)

    assert [update.call_id for update in relay.flush(9.0)] == ["c0"]


def test_a_flooding_child_is_limited_and_its_sibling_is_not() -> None:
    """Two at once and one a second: the third of the same child is dropped, the sibling's first is not."""
    relay = a_relay(per_second=1.0, burst=2)
    flood = [relay.offer(SHOP, "searching_offers", {}, now=0.0)[0] for _ in range(3)]

    assert flood == ["forward", "forward", "rate_limited"]
    assert relay.offer(REWARDS, "searching_offers", {}, now=0.0)[0] == "forward"
    assert relay.offer(SHOP, "searching_offers", {}, now=1.0)[0] == "forward"


@given(st.lists(st.floats(0, 5), max_size=200))
def test_a_bucket_never_gives_more_than_burst_and_rate(waits: list[float]) -> None:
    """Over any time: at most the burst and what the rate has filled in."""
    bucket, now, taken = TokenBucket(per_second=2.0, burst=5.0), 0.0, 0
    for wait in waits:
        now += wait
        taken += bucket.take(now)

    assert taken <= 5 + 2.0 * now + 1e-6


def test_attributes_are_bounded_not_refused() -> None:
    """Sixteen keys, 256 characters each."""
    _, update = a_relay().offer(SHOP, "searching_offers", {f"k{n}": "v" * 999 for n in range(40)}, now=0.0)

    assert update is not None
    assert len(update.attributes) == 16
    assert {len(value) for value in update.attributes.values()} == {256}
