"""A grant is a key into the table of attempts that run, and opens nothing once its row is gone."""

from collections import deque
from collections.abc import Callable

import pytest

from sidecar.adapters.system import SystemIds
from sidecar.core.errors import GrantInvalid, GrantSpent
from sidecar.core.identifiers import AttemptId
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.grants import GrantTable
from tests.support.turn_states import CountingIds, a_child, a_dispatch, a_turn

ONE, TWO = AttemptId("attempt-1"), AttemptId("attempt-2")
OVER = "the attempt that this grant was for is over; stop calling tools"
NONE_OF_OURS = "the grant is not one of this sidecar; send the one that came with the run"


def children() -> tuple[Child, Child]:
    """Return children of two dispatches of a turn."""
    turn = a_turn()
    first, second = a_dispatch(turn, "d1"), a_dispatch(turn, "d2")
    return a_child(first, first.plan.run[0]), a_child(second, second.plan.run[0])


def test_a_grant_opens_its_own_attempt_until_that_ends() -> None:
    """Each of two that run, whichever dispatch they are of; when one is over, only the other."""
    table, (shop, other) = GrantTable(SystemIds()), children()
    mine, theirs = table.mint(shop, ONE), table.mint(other, TWO)

    assert (table.claim(mine).child, table.claim(theirs).child, table.alive) == (shop, other, 2)
    table.revoke(ONE)
    assert (table.claim(theirs).child, table.alive) == (other, 1)
    with pytest.raises(GrantSpent, match=OVER):
        table.claim(mine)


def test_a_second_attempt_of_a_child_has_a_grant_of_its_own() -> None:
    """That of the first stays dead."""
    table, (shop, _) = GrantTable(SystemIds()), children()
    first = table.mint(shop, ONE)
    table.revoke(ONE)
    second = table.mint(shop, TWO)

    assert table.claim(second).child is shop
    with pytest.raises(GrantSpent, match=OVER):
        table.claim(first)


@pytest.mark.parametrize(
    "altered",
    [
        lambda key: key[:-1],
        lambda key: key.removesuffix(".end"),
        lambda key: key[1:],
        lambda key: key.removeprefix("gr1."),
        lambda key: f"{key} ",
        lambda key: f"{key}\n",
        lambda key: key.upper(),
        lambda key: "gr1..end",
        lambda key: f"gr1.{'x' * 65}.end",
        lambda key: "nonsense",
        lambda key: "",
    ],
)
def test_what_is_no_whole_key_is_refused_as_none(altered: Callable[[str], str]) -> None:
    """Cut short at either end, longer, written otherwise, empty: while the attempt runs."""
    table, (shop, _) = GrantTable(SystemIds()), children()
    key = table.mint(shop, ONE)

    with pytest.raises(GrantInvalid) as refused:
        table.claim(altered(key))
    assert str(refused.value) == NONE_OF_OURS
    assert not table.revoke(ONE)  # it was not used by that


@pytest.mark.parametrize("middle", ["grant-0123456789012345678901", "x", "_" * 64])
def test_a_key_that_is_guessed_opens_nothing(middle: str) -> None:
    """It cannot be told from one that is over: of before a restart, or of another sidecar."""
    table, (shop, _) = GrantTable(SystemIds()), children()
    table.mint(shop, ONE)
    elsewhere = GrantTable(SystemIds()).mint(shop, ONE)

    for guessed in (f"gr1.{middle}.end", elsewhere):
        with pytest.raises(GrantSpent, match=OVER):
            table.claim(guessed)


def test_keys_are_random_and_say_nothing() -> None:
    """At least 128 bits each, in a form that the log's redaction knows; none of the child's ids is in them."""
    table, (shop, _) = GrantTable(SystemIds()), children()
    keys = [table.mint(shop, AttemptId(f"attempt-{number}")) for number in range(100)]

    drawn = {key.removeprefix("gr1.grant-").removesuffix(".end") for key in keys}
    assert len(drawn) == 100
    assert {len(each) * 6 for each in drawn} == {132}  # of base64, six random bits each
    assert not any(said in key for key in keys for said in (shop.child_id, "attempt"))


def test_the_ids_that_make_keys_are_each_given_out_once() -> None:
    """One draw a key: what is alive is told apart by nothing else."""
    table, (shop, _) = GrantTable(CountingIds()), children()
    assert [table.mint(shop, ONE), table.mint(shop, TWO)] == ["gr1.grant-1.end", "gr1.grant-2.end"]


def test_a_revoked_grant_says_whether_it_was_used() -> None:
    """Which shows that the host was there; what was never minted was never used."""
    table, (shop, other) = GrantTable(SystemIds()), children()
    used = table.mint(shop, ONE)
    table.mint(other, TWO)
    table.claim(used)

    assert [table.revoke(each) for each in (ONE, TWO, ONE, AttemptId("never"))] == [True, False, False, False]
    assert table.alive == 0


def test_a_refused_claim_is_no_use() -> None:
    """With the lease away, nothing was asked for."""
    held = True
    table, (shop, _) = GrantTable(SystemIds(), lambda: held), children()
    key = table.mint(shop, ONE)
    held = False
    with pytest.raises(GrantSpent, match=OVER):
        table.claim(key)
    assert not table.revoke(ONE)


def test_all_grants_of_a_child_that_is_taken_over_die() -> None:
    """And no other's."""
    table, (shop, other) = GrantTable(SystemIds()), children()
    keys = [table.mint(shop, ONE), table.mint(shop, TWO)]
    theirs = table.mint(other, AttemptId("attempt-3"))

    table.revoke_all_of(shop.child_id)

    assert (table.alive, table.claim(theirs).child) == (1, other)
    for key in keys:
        with pytest.raises(GrantSpent, match=OVER):
            table.claim(key)


def test_a_grant_of_before_the_lease_lapsed_stays_dead() -> None:
    """Others may have gone on meanwhile; one that is minted afterwards works."""
    terms = deque([1, 1, 2, 2, 2])
    table, (shop, other) = GrantTable(SystemIds(), lambda: True, terms.popleft), children()
    before = table.mint(shop, ONE)

    assert table.claim(before).child is shop
    with pytest.raises(GrantSpent, match=OVER):
        table.claim(before)
    assert table.claim(table.mint(other, TWO)).child is other
