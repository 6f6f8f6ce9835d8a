"""Claims, contracts and digests in the form that facts hold: all comes back, and what is usual takes few bytes."""

from datetime import UTC
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.executing.contract import DEFAULT_OUTPUTS, Ancestor, Contract, Outputs
from sidecar.core.executing.delegation import path_of
from sidecar.core.identifiers import ChildId, DefinitionId, Digest, InstanceId, Slot, TurnId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import DispatchOpened
from sidecar.core.journal.opening.claims import CODES, BareClaims, UnnamedClaims, UserTexts, named, unnamed
from sidecar.core.journal.opening.contracts import (
    BareContract,
    ContractPosition,
    below,
    called,
    restored,
    said_in,
    stripped,
)
from sidecar.core.journal.opening.part import packed, unpacked
from sidecar.core.journal.opening.requests import asked_of, request_of, texts_of
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_projection import TurnProjection
from sidecar.core.rollout.serving import CandidateVerdict
from tests.support.journal_drafts import DIGEST, a_contract, a_request, an_opening, moment, some_claims

TURN = TurnId("turn-0123456789abcdef0123456789abcdef")
EIGHT = tuple(f"instant-{number}" for number in range(1, 9))
OTHER = "sha256:" + "cd" * 32


def again(value: Any) -> Any:
    """Return what is read of what is written."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


def size(value: Any) -> int:
    """Return the bytes that a part takes in a body."""
    return len(msgspec.msgpack.encode(value))


# --- digests


digests = st.binary(min_size=32, max_size=32).map(lambda raw: f"sha256:{raw.hex()}")
odd_digests = st.one_of(
    digests.map(str.upper),
    digests.map(lambda text: text[:-2]),
    digests.map(lambda text: text[7:]),
    digests.map(lambda text: f"{text[:9]} {text[9:]}"),
    digests.map(lambda text: f"{text}{text}"),
    digests.map(lambda text: f"sha256:{text[:-7]}"),
    st.sampled_from(["", "sha256:", "sha512:" + "ab" * 32, "sha256:" + "é" * 64]),
    st.text(max_size=70),
)


@given(st.lists(digests, max_size=9))
def test_digests_are_kept_as_bytes(texts: list[str]) -> None:
    """Thirty-two each."""
    stored = packed(texts)
    assert isinstance(stored, bytes)
    assert (len(stored), unpacked(stored)) == (32 * len(texts), tuple(texts))


@given(st.lists(st.one_of(digests, odd_digests), max_size=5))
def test_any_other_text_comes_back_as_a_digest(texts: list[str]) -> None:
    """Capitals, spaces, too few or too many digits, another prefix, none: letter by letter."""
    assert unpacked(packed(texts)) == tuple(texts)


def test_two_digests_that_only_together_look_like_two_are_told_apart() -> None:
    """The same letters in other places."""
    for texts in ((DIGEST + OTHER, ""), ("", DIGEST), (DIGEST[:20], DIGEST[20:]), (DIGEST[7:], DIGEST)):
        assert unpacked(packed(texts)) == texts


# --- claims


words = st.text(max_size=6)
slots = st.text(max_size=4).map(Slot)
verdicts = st.one_of(st.sampled_from(["chosen", "chosen", *CandidateVerdict]).map(str), words)
any_digest = st.one_of(digests, odd_digests).map(Digest)
times = st.datetimes(timezones=st.just(UTC))


@st.composite
def candidates(draw: st.DrawFn) -> tuple[Slot, DefinitionId | None, str]:
    """Return a candidate whose definition often has the name of the slot."""
    slot = draw(slots)
    return slot, draw(st.one_of(st.just(DefinitionId(slot)), st.none(), words.map(DefinitionId))), draw(verdicts)


@st.composite
def claims(draw: st.DrawFn) -> SurfaceClaims:
    """Return claims; the tools are often those that were chosen."""
    offered = draw(st.lists(candidates(), max_size=5))
    chosen = [slot for slot, _, verdict in offered if verdict == "chosen"]
    tools = draw(st.one_of(st.just(chosen), st.permutations(chosen), st.lists(slots, max_size=4)))
    some = draw(st.one_of(st.just(digests), st.just(any_digest)))
    return some_claims(
        TURN,
        orchestrator_digest=Digest(draw(some)),
        orchestrator_id=draw(words),
        tools=tuple((slot, Digest(draw(some))) for slot in tools),
        candidates=tuple(offered),
        versions=tuple(draw(st.lists(words, min_size=3, max_size=3))),
        flags=tuple(draw(st.lists(words, max_size=2))),
        arm=draw(words),
        previous=draw(st.one_of(st.none(), st.lists(slots, max_size=3).map(tuple))),
        fan_out_cap=draw(st.integers(-1, 300)),
        source=draw(words),
        locale=draw(st.one_of(st.none(), words)),
        location=draw(st.one_of(st.none(), words)),
        bound_at=draw(times),
        expires_at=draw(times),
    )


@given(claims())
def test_claims_come_back_whole(whole: SurfaceClaims) -> None:
    """Whatever the verdicts, the digests and the order of the tools are."""
    parts = unnamed(whole)
    read = UnnamedClaims(again(parts.claims), again(parts.user))
    assert read == parts
    assert named(read, whole.turn_id) == whole
    assert msgspec.json.encode(named(read, whole.turn_id)) == msgspec.json.encode(whole)


OFFERED = (("a", "a", "chosen"), ("b", None, "killed"), ("c", "c-2", "chosen"), ("d", "", "unheard of"))


@pytest.mark.parametrize("tools", ["ac", "ca", "abcd", "a", "acc", "acx", ""])
@pytest.mark.parametrize("offered", [OFFERED, OFFERED[:1], OFFERED[::-1], OFFERED[:1] * 2, ()])
def test_tools_need_not_be_the_chosen_candidates(tools: str, offered: Any) -> None:
    """In another order, more or fewer, twice, none: as they were bound."""
    bound = tuple((Slot(slot), Digest(DIGEST)) for slot in tools)
    whole = some_claims(TURN, tools=bound, candidates=offered)
    parts = unnamed(whole)
    assert named(UnnamedClaims(again(parts.claims), parts.user), TURN) == whole


@given(claims())
def test_claims_without_texts_lack_what_names_the_user(whole: SurfaceClaims) -> None:
    """And nothing else."""
    bare = named(UnnamedClaims(unnamed(whole).claims, UserTexts()), whole.turn_id)
    assert bare == msgspec.structs.replace(whole, principal="", locale=None, location=None)


def test_each_verdict_has_a_number() -> None:
    """A new one needs the next."""
    assert {*CODES} == {verdict.value for verdict in CandidateVerdict}


@pytest.mark.parametrize("change", [{"slots": ("a", "b")}, {"tools": ()}, {"digests": b""}, {"verdicts": (1, 1, 1)}])
def test_columns_that_do_not_fit_are_refused(change: Any) -> None:
    """Broken or altered facts never become other claims silently."""
    parts = unnamed(some_claims(TURN, ("a", "b", "c")))
    with pytest.raises(ValueError):  # noqa: PT011  the words are Python's
        named(UnnamedClaims(msgspec.structs.replace(parts.claims, **change), parts.user), TURN)


@pytest.mark.parametrize("written", [99, -1, True, None])
def test_an_unknown_verdict_is_refused(written: Any) -> None:
    """As an unknown event is: a number that this version does not have."""
    raw = msgspec.to_builtins(unnamed(some_claims(TURN, ("a",))).claims)
    raw[BareClaims.__struct_fields__.index("verdicts")] = [written]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(raw), type=BareClaims)


# --- contracts


@st.composite
def contracts(draw: st.DrawFn) -> tuple[Contract, ContractPosition]:
    """Return a contract and its place, for a call or for a child that a child delegates to."""
    slot, bound = Slot(draw(words)), Digest(draw(any_digest))
    turn = some_claims(TURN, tools=((slot, bound),) if draw(st.booleans()) else ())
    contract, replace = a_contract(TURN, slot, 3), msgspec.structs.replace
    digest = draw(st.one_of(st.just(bound), any_digest))
    place = called(turn, slot, 3, a_request(slots=("shop", slot)), 1)
    path = st.lists(st.builds(Ancestor, child_id=words, sub_agent_id=st.just("a"), definition_id=words | st.just("a")))
    ancestors: tuple[Ancestor, ...] = tuple(draw(path))
    if draw(st.booleans()):
        above = replace(contract, sub_agent_id=Slot(draw(words)), ancestors=tuple(draw(path)))
        place = below(turn, slot, 3, ChildId("child-1"), above)
        ancestors = draw(st.one_of(st.just(path_of(ChildId("child-1"), above)), path.map(tuple)))
    count, spoken = st.one_of(st.none(), st.integers(0, 1 << 40)), st.one_of(st.just("What is new?"), words)
    bounds = {
        name: draw(count) for name in ("wall_clock_ms", "tool_calls", "tokens", "idle_timeout_ms", "time_left_ms")
    }
    criteria, allowed = (tuple(draw(st.lists(words, max_size=2))) for _ in range(2))
    step = {"title": draw(words | st.just("ask_shop")), "description": draw(spoken), "success_criteria": criteria}
    may = {"allowed_tools": allowed, "can_spawn_children": draw(st.booleans())}
    runs = {"attempt_timeout_ms": draw(st.integers(0, 1 << 40)), "max_retries": draw(st.integers(0, 3))}
    return replace(
        contract,
        parent=replace(contract.parent, task_prompt=draw(spoken), goal_summary=draw(spoken)),
        step=replace(contract.step, **step),
        permissions=replace(contract.permissions, max_delegation_depth=draw(st.integers(0, 2)), **may),
        execution=replace(contract.execution, close_on_completion=draw(st.booleans()), **runs),
        outputs=draw(
            st.one_of(st.just(DEFAULT_OUTPUTS), st.builds(Outputs, report_format=words, report_path_pattern=words))
        ),
        budgets=replace(contract.budgets, **bounds),
        sub_agent_id=slot,
        definition_id=draw(words | st.just(slot)),
        definition_digest=digest,
        definition_commit=draw(st.one_of(st.just(digest), words)),
        ownership=draw(st.one_of(st.just((f"slot:{slot}",)), st.lists(words, max_size=2).map(tuple))),
        parent_child_id=place.parent,
        ancestors=ancestors,
    ), place


@given(contracts())
def test_contracts_come_back_whole(drawn: tuple[Contract, ContractPosition]) -> None:
    """Called or delegated to, bound or not, with any value that a card can have, and empty ones."""
    contract, place = drawn
    bare, texts = stripped(contract, place)
    assert restored(again(bare), again(texts), place) == contract
    assert restored(again(bare), again(texts), place).to_json() == contract.to_json()


def test_a_delegated_contract_without_ancestors_stays_without() -> None:
    """Nothing is not the usual."""
    above = a_contract(TURN, "shop", 0)
    place = below(some_claims(TURN), Slot("rewards"), 1, ChildId("child-0"), above)
    contract = msgspec.structs.replace(a_contract(TURN, "rewards", 1), parent_child_id=ChildId("child-0"))
    assert place.ancestors == (Ancestor(child_id=ChildId("child-0"), sub_agent_id=Slot("shop"), definition_id="shop"),)
    for ancestors in ((), path_of(ChildId("child-0"), above), path_of(ChildId("child-7"), above)):
        whole = msgspec.structs.replace(contract, ancestors=ancestors)
        bare, texts = stripped(whole, place)
        assert restored(again(bare), texts, place) == whole
        assert (bare.ancestors is None) == (ancestors == place.ancestors)


@pytest.mark.parametrize(
    "change", [{"sub_agent_id": Slot("bank")}, {"parent_child_id": ChildId("child-9")}, {"parent": None}]
)
def test_a_contract_of_another_place_is_refused(change: Any) -> None:
    """It would come back as another one."""
    contract = a_contract(TURN, "shop", 0)
    if "parent" in change:
        change = {"parent": msgspec.structs.replace(contract.parent, step_idx=1)}
    place = called(some_claims(TURN), Slot("shop"), 0, a_request(), 0)
    with pytest.raises(ValueError, match="contradicts"):
        stripped(msgspec.structs.replace(contract, **change), place)


def test_a_digest_that_nothing_says_is_refused() -> None:
    """The claims of the dispatch do not bind the slot, and the contract leaves the digest out."""
    bare, texts = stripped(a_contract(TURN, "shop", 0), called(some_claims(TURN), Slot("shop"), 0, a_request(), 0))
    with pytest.raises(ValueError, match="no definition is bound for shop"):
        restored(bare, texts, called(some_claims(TURN, ()), Slot("shop"), 0, a_request(), 0))


def test_a_contract_has_the_digest_that_its_own_dispatch_binds() -> None:
    """Not the one of a newer binding of the turn, whose dispatch may be accepted in between."""
    reading, old = TurnProjection(TURN), some_claims(TURN, ("shop",))
    new = msgspec.structs.replace(old, tools=((Slot("shop"), Digest(OTHER)),))
    first, second = a_request("dispatch-1"), a_request("dispatch-2")
    for step, (request, bound) in enumerate([(first, old), (second, new)]):
        body, texts = an_opening(request, bound, first_step=step, places=())
        reading.take(Draft(TURN, InstanceId("one"), moment(step), body, texts))
    place = called(reading.dispatches[first.dispatch_id].claims, Slot("shop"), 0, first, 0)
    assert place.digest == DIGEST
    assert reading.claims == new


# --- requests


@given(any_digest, st.sampled_from(["cancel", "continue", "", "Cancel"]))
def test_requests_come_back_whole(digest: str, on_disconnect: str) -> None:
    """Whatever the digest is written like."""
    request = msgspec.structs.replace(a_request(on_disconnect=on_disconnect), binding_digest=digest)
    assert request_of(request.dispatch_id, again(asked_of(request)), texts_of(request)) == request


# --- sizes


def an_opening_of_one_child() -> tuple[DispatchOpened, Texts]:
    """Return the first fact of a turn with eight bound tools, with ids as they are in use."""
    bound = some_claims(TURN, EIGHT, episode_id="episode-0123456789abcdef0123456789abcdef")
    request = a_request("dispatch-0123456789abcdef0123456789abcdef", EIGHT[:1])
    body, texts = an_opening(request, bound)
    (start,) = body.children
    return msgspec.structs.replace(
        body, children=(msgspec.structs.replace(start, child_id=ChildId("child-0123456789abcdef012345")),)
    ), texts


def test_the_first_fact_of_a_turn_is_small() -> None:
    """Three of them fit on a page of 4 KiB, with their texts; 2,129 bytes before, claims 1,311, the contract 576."""
    body, _ = an_opening_of_one_child()
    bare, _ = stripped(
        a_contract(TURN, EIGHT[0], 0),
        ContractPosition(TURN, Slot(EIGHT[0]), 0, said_in(a_request(slots=EIGHT[:1]), 0), digest=DIGEST),
    )
    assert body.children[0].contract == bare
    assert size(body.claims) <= 560
    assert size(bare) <= 90
    assert size(body) <= 1000
    assert (size(body.claims), size(bare), size(body)) == (486, 20, 700)  # as `docs/journal.md` says


def test_a_bare_contract_has_no_digest() -> None:
    """The claims have it."""
    body, _ = an_opening_of_one_child()
    assert body.children[0].contract == BareContract(20_000, 9_843)
