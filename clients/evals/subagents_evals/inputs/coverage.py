"""Finds what a golden set does not cover: switches between sub-agents, languages, declared capabilities, kinds."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from subagents_evals.inputs.cases import GoldenSet, Kind

REQUIRED_KINDS = (Kind.SINGLE, Kind.MIXED, Kind.RECALL, Kind.COMPACTION, Kind.FAILURE, Kind.SMALL_TALK, Kind.INJECTION)


def gaps(golden: GoldenSet, slots: Sequence[str], capabilities: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield one sentence for each thing that no case covers; nothing if the set is complete.

    Args:
        golden: the cases.
        slots: the sub-agents of the surface.
        capabilities: slot to the declared capabilities of its card; see `configuration.capabilities_of`.

    Source: PC2-NFR-6 (every ordered pair of verticals), PF1-T-12 (declared capabilities).
    """
    yield from (f"{slot}: suite.yaml has no scripted answer" for slot in slots if slot not in golden.suite.sub_agents)
    switches = {case.switch for case in golden.cases}
    for before, after in permutations(slots, 2):
        if (before, after) not in switches:
            yield f"{after}: no case of kind switch leads from {before} to {after}"
    for slot in slots:
        mine = [case for case in golden.cases if slot in case.calls]
        for language in golden.suite.languages:
            if not any(case.language == language and case.calls == (slot,) for case in mine):
                yield f"{slot}: no case in the language {language}"
        covered = {name for case in mine for name in case.covers}
        for name in capabilities.get(slot, ()):
            if name not in covered:
                yield f"{slot}: no case covers {name}, which the card declares"
    present = {case.kind for case in golden.cases}
    yield from (f"no case of kind {kind.value}" for kind in REQUIRED_KINDS if kind not in present)


def unknown_capabilities(golden: GoldenSet, capabilities: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield `file:line: problem` for each `covers` that no called sub-agent declares."""
    for case in golden.cases:
        declared = {name for slot in case.calls for name in capabilities.get(slot, ())}
        for name in case.covers:
            if name not in declared:
                yield f"{golden.places[case.id]}: {case.id}: `covers` names {name!r}, which no called card declares"
