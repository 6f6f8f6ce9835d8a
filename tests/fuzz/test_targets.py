"""Each parser keeps its promises on its corpus and some hundred mutations; `make fuzz` searches long, with coverage."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from sidecar.core.envelopes import Released, check_envelope
from sidecar.core.session.incoming import IncomingValidator
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.fuzz.mutating import inputs
from tests.fuzz.run import CORPUS, TARGETS, corpus_of, mutated
from tests.fuzz.target import Target, holds
from tests.unit.envelopes.building import expecting

FEW: Final = 250
"""Mutations of each target: the same ones each time."""
NEVER: Final = 60.0
"""Seconds that no target needs for so few."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_keeps_its_promises_for_any_bytes(name: str) -> None:
    """Its seeds, its corpus with all earlier findings, and mutations of them."""
    target = TARGETS[name]
    most = len(target.seeds) + len(corpus_of(target)) + FEW

    fuzzed = mutated(target, NEVER, most)

    assert fuzzed.found is None, fuzzed.found
    assert fuzzed.inputs == most


def test_every_folder_of_the_corpus_belongs_to_a_target() -> None:
    """Inputs of a target that was renamed would never run again."""
    assert {folder.name for folder in CORPUS.iterdir() if folder.is_dir()} <= set(TARGETS)


def test_mutations_are_the_same_each_time_and_differ() -> None:
    """A finding can be repeated from its seed."""
    fresh = [inputs(TARGETS["settings"], [], seed) for seed in (1, 1, 2)]
    one, same, other = ([next(each) for _ in range(50)] for each in fresh)
    assert one == same
    assert one != other
    assert len(set(one)) > 25


# --- the harness finds what it is for


def _json_without_limits(data: bytes) -> None:
    json.loads(data)


def _principal_by_the_last_member(data: bytes) -> None:
    """A check that reads JSON as most parsers do: of two members with one name, the last one counts."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(said, dict) and said.get("principal") == "user-ada":
        first = json.loads(data, object_pairs_hook=lambda pairs: next((v for k, v in pairs if k == "principal"), None))
        holds(first == "user-ada", "released for another user")


def _ids_that_may_fall(data: bytes) -> None:
    newest = 0
    for byte in data:
        holds(byte > newest, "an id that does not rise")
        newest = byte


@pytest.mark.parametrize(
    ("run", "seed", "said"),
    [
        (_json_without_limits, b"{}", "JSONDecodeError"),
        (_principal_by_the_last_member, b'{"principal":"user-ada","payload":{"principal":"user-bob"}}', "another user"),
        (_ids_that_may_fall, b"\x01\x02\x03", "does not rise"),
    ],
)
def test_a_planted_defect_is_found(run: Callable[[bytes], Any], seed: bytes, said: str) -> None:
    """A parser that raises what nobody catches, one that can be confused, one that forgets a rule."""
    words = (b'"principal":"user-bob",', b'"principal":"user-ada",', b"\x01")
    fuzzed = mutated(Target("planted", run, [seed], words), NEVER, 20_000)
    assert fuzzed.found is not None
    assert said in fuzzed.found[1]


def test_the_seeds_reach_what_is_behind_the_first_check() -> None:
    """An envelope is released, a lane begins operations: else mutations would only ever meet the first refusal."""
    assert isinstance(check_envelope(TARGETS["envelope"].seeds[0], expecting()), Released)
    lane = pb.SessionRequest.FromString(TARGETS["lane_message"].seeds[0])
    incoming = IncomingValidator(9)
    incoming.hello(lane.hello.contract_version)
    for operation in lane.operations:
        incoming.begin(operation.correlation_id)
    assert incoming.newest == 2
