"""What is said of a running root, word for word and with the place."""

from collections.abc import Sequence
from datetime import date

import pytest

from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.markers import root_over
from sidecar.core.verifying.checkpoint_lines import RootKey
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.verifying.verify_roots import RootWalk

A, DAY = InstanceId("a"), date(2026, 3, 1)
K = FindingKind
LINKS = [bytes([number]) * 32 for number in range(4)]
OF = "of instance a in turns of 2026-03-01"


def root(number: int) -> str:
    """Return the root over so many of the facts."""
    return root_over(LINKS[:number])


def state(number: int, said: str | None = None) -> RootState:
    """Return where the record says that the root stands."""
    return RootState(A, DAY, number, root(number) if said is None else said)


def of_root(kind: FindingKind, number: int, text: str) -> Finding:
    """Return a finding about the root."""
    return Finding(kind, text, A, DAY, sequence=number)


def contradicted(number: int, after: str = "") -> Finding:
    """Return a finding about what was signed."""
    text = (
        f"the first {number} facts {OF} are not those that a signed checkpoint covers: "
        f"something among them{after} was altered, moved, removed or put in"
    )
    return of_root(K.ROOT_CONTRADICTED, number, text)


def altered(number: int, after: str = "") -> Finding:
    """Return a finding about where the root stands."""
    text = (
        f"the {number} facts {OF} do not give the root that the record says it stands at: "
        f"something among them{after} was altered, moved, removed or put in"
    )
    return of_root(K.ROOT_ALTERED, number, text)


def missing(there: int, said: str) -> Finding:
    """Return a finding about the end."""
    return of_root(K.ROOT_CUT, there + 1, f"facts {OF} are missing: {there} are there, {said}")


@pytest.mark.parametrize(
    ("taken", "stands", "claims", "unsigned", "findings"),
    [
        (4, state(4), {}, 4, []),
        (4, state(4), {2: root(2)}, 2, []),
        (4, state(4), {2: root(2), 4: root(4)}, 0, []),
        (4, state(3), {2: root(2)}, 2, []),
        (4, state(4), {2: "x", 3: "x"}, 1, [contradicted(2)]),
        (4, state(4), {2: root(2), 3: "x", 4: "x"}, 0, [contradicted(3, ", after the first 2,")]),
        (4, state(4, "x"), {}, 4, [altered(4)]),
        (4, state(4, "x"), {2: root(2)}, 2, [altered(4, ", after the first 2,")]),
        (4, state(4, "x"), {4: "x"}, 0, [contradicted(4)]),
        (4, state(3, "x"), {}, 4, [altered(3)]),
        (3, state(4), {}, 3, [missing(3, "the record says that there are 4")]),
        (3, state(3), {4: root(4), 6: "x"}, 0, [missing(3, "a signed checkpoint has 6")]),
        (3, state(9), {4: root(4)}, 0, [missing(3, "a signed checkpoint has 4")]),
        (3, None, {4: root(4)}, 0, [missing(3, "a signed checkpoint has 4")]),
        (0, None, {4: root(4)}, 0, [missing(0, "a signed checkpoint has 4")]),
    ],
)
def test_a_running_root_is_found_to_be_exactly_this(
    taken: int, stands: RootState | None, claims: dict[int, str], unsigned: int, findings: Sequence[Finding]
) -> None:
    """Whole, contradicted once, altered, cut; and how much is not signed yet."""
    walk = RootWalk(RootKey(A, DAY), stands, claims)
    found = [*(finding for link in LINKS[:taken] for finding in walk.take(link)), *walk.end()]
    assert (found, walk.number, walk.unsigned) == (findings, taken, unsigned)


@pytest.mark.parametrize(
    ("before", "again", "findings"),
    [
        (state(2), state(4), []),
        (None, state(4), []),
        (state(2), state(5, "x"), []),
        (state(2), state(3), [of_root(K.ROOT_ALTERED, 4, f"4 facts {OF} are there, and the running root covers 3")]),
        (None, None, [of_root(K.ROOT_ALTERED, 4, f"4 facts {OF} are there, and the running root covers 0")]),
        (
            state(2),
            state(4, "x"),
            [of_root(K.ROOT_ALTERED, 4, f"the 4 facts {OF} do not give the root that the record says it stands at")],
        ),
        (state(2, "x"), state(4, "x"), []),
    ],
)
def test_facts_beyond_a_root_are_held_against_it_once_more(
    before: RootState | None, again: RootState | None, findings: Sequence[Finding]
) -> None:
    """They were appended since it was read, or put in; what was named before is not named again."""
    walk = RootWalk(RootKey(A, DAY), before, {})
    for link in LINKS:
        list(walk.take(link))
    assert walk.is_ahead
    assert list(walk.against(again)) == findings


def test_a_root_that_covers_all_facts_is_not_ahead() -> None:
    """Nor one that covers more."""
    for number in (4, 9):
        walk = RootWalk(RootKey(A, DAY), state(number), {})
        for link in LINKS:
            list(walk.take(link))
        assert not walk.is_ahead
