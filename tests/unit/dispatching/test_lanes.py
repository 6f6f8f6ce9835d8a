"""Which waiting calls of a turn may run now."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.dispatching.slot_queues import QueuedCall, SlotQueues
from tests.support.requirement import requirement

BOUNDARIES = st.lists(st.sampled_from(["slot:a", "slot:b", "cart", "wallet"]), min_size=1, max_size=2, unique=True)
CALLS = st.lists(st.tuples(BOUNDARIES, st.sampled_from(["d1", "d2"]), st.integers(1, 3)), min_size=1, max_size=8)


def waiting(key: str, *boundaries: str, parallel: int = 9, group: str = "d1") -> QueuedCall:
    """Return a call that waits."""
    return QueuedCall(key, group, parallel, boundaries or (f"slot:{key}",))


def test_different_sub_agents_run_at_once() -> None:
    """Nothing in common: all start together, in order."""
    lanes = SlotQueues()

    lanes.enter([waiting("a"), waiting("b"), waiting("c")])

    assert lanes.start_ready() == ("a", "b", "c")


def test_calls_to_the_same_sub_agent_run_one_after_the_other() -> None:
    """The second starts when the first has left, not before."""
    lanes = SlotQueues()
    lanes.enter([waiting("first", "slot:a"), waiting("second", "slot:a")])

    assert lanes.start_ready() == ("first",)
    assert lanes.start_ready() == ()
    lanes.leave("first")
    assert lanes.start_ready() == ("second",)


def test_a_declared_overlap_serialises_just_those_calls() -> None:
    """`b` and `c` both own the cart; `a` and `d` go ahead."""
    lanes = SlotQueues()

    lanes.enter([waiting("a"), waiting("b", "slot:b", "cart"), waiting("c", "slot:c", "cart"), waiting("d")])

    assert lanes.start_ready() == ("a", "b", "d")


def test_nobody_is_overtaken_in_his_own_lane() -> None:
    """`third` shares with the waiting `second` only, and still waits for it."""
    lanes = SlotQueues()
    lanes.enter([waiting("first", "cart"), waiting("second", "cart", "wallet"), waiting("third", "wallet")])

    assert lanes.start_ready() == ("first",)
    lanes.leave("first")
    assert lanes.start_ready() == ("second",)


def test_a_dispatch_keeps_to_its_parallel_places() -> None:
    """Two places in one dispatch; another dispatch of the turn is not held up by it."""
    lanes = SlotQueues()
    lanes.enter([waiting(name, parallel=2) for name in "abc"])
    lanes.enter([waiting("other", group="d2")])

    assert lanes.start_ready() == ("a", "b", "other")
    assert lanes.occupied == 4


def test_giving_up_frees_the_lane() -> None:
    """A waiting call that is cancelled holds nobody up."""
    lanes = SlotQueues()
    lanes.enter([waiting("first", "cart"), waiting("second", "cart"), waiting("third", "cart")])
    lanes.start_ready()

    lanes.leave("second")
    lanes.leave("first")

    assert lanes.start_ready() == ("third",)


@requirement("SX-50")
@given(CALLS, st.randoms(use_true_random=False))
def test_overlapping_calls_always_start_in_emission_order(
    calls: list[tuple[list[str], str, int]], chance: object
) -> None:
    """Whatever order calls end in: no two that overlap run at once, each group keeps its places, all get to run."""
    lanes, running, started = SlotQueues(), list[QueuedCall](), list[QueuedCall]()
    everyone = [QueuedCall(str(n), group, parallel, tuple(owned)) for n, (owned, group, parallel) in enumerate(calls)]
    by_key = {call.key: call for call in everyone}
    lanes.enter(everyone)

    while True:
        now = [by_key[key] for key in lanes.start_ready()]
        started += now
        for call in now:
            assert all(set(call.boundaries).isdisjoint(other.boundaries) for other in running)
            running.append(call)
        if not running:
            break
        lanes.leave(running.pop(chance.randrange(len(running))).key)  # type: ignore[attr-defined]  # hypothesis' Random

    assert len(started) == len(everyone)
    for index, call in enumerate(started):
        earlier_in_emission = [other for other in started[index:] if int(other.key) < int(call.key)]
        assert all(set(call.boundaries).isdisjoint(other.boundaries) for other in earlier_in_emission)
