"""Cases, and the files that contain them: `evals/suite.yaml` and the sets beside it.

`docs/evaluating-routing.md` describes every field.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path
from typing import Final

import msgspec

from subagents_evals.inputs.strict_yaml import Lines, UnusableFile, read_as

SUITE: Final = "suite.yaml"
ENGLISH: Final = "en"
MOST_CASES: Final = 10_000


@unique
class Kind(StrEnum):
    """What a case is about; metrics are also reported by kind."""

    SINGLE = "single"
    MIXED = "mixed"
    SWITCH = "switch"
    RECALL = "recall"
    COMPACTION = "compaction"
    FAILURE = "failure"
    SMALL_TALK = "small_talk"
    INJECTION = "injection"
    SAMPLED = "sampled"
    """Taken from production and labelled by a person."""


@unique
class Fault(StrEnum):
    """The failure of a sub-agent that a case scripts."""

    ERROR = "error"
    """The sub-agent raises an exception and gives no answer."""
    NO_DATA = "no_data"
    """The sub-agent answers, but data was unavailable."""


class EarlierTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One earlier turn, played before the case with scripted responses.

    Attributes:
        user: what the user said.
        assistant: the answer that the user read.
        called: slots that were called in this turn.
    """

    user: str
    assistant: str
    called: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One labelled message. `docs/evaluating-routing.md` describes each field."""

    id: str
    message: str
    calls: tuple[str, ...]
    kind: Kind = Kind.SINGLE
    language: str = ""
    history: tuple[EarlierTurn, ...] = ()
    forbidden: tuple[str, ...] = ()
    intents: int | None = None
    covers: tuple[str, ...] = ()
    needs: Mapping[str, tuple[str, ...]] = {}
    acknowledge: Mapping[str, tuple[str, ...]] = {}
    faults: Mapping[str, Fault] = {}
    answers: Mapping[str, str] = {}
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    compacted: bool = False

    def __post_init__(self) -> None:
        """Raise `ValueError` for a case that contradicts itself."""
        if not self.id or not self.message.strip():
            raise ValueError("a case needs an `id` and a `message`")
        for name, slots in (("needs", self.needs), ("acknowledge", self.acknowledge), ("faults", self.faults)):
            if stray := sorted(set(slots) - set(self.calls)):
                raise ValueError(f"`{name}` names {stray[0]!r}, which is not among `calls`")
        if both := sorted(set(self.calls) & set(self.forbidden)):
            raise ValueError(f"{both[0]!r} is in `calls` and in `forbidden`")
        if len(set(self.calls)) < len(self.calls):
            raise ValueError("`calls` is a set; a slot may occur once")

    @property
    def wanted(self) -> frozenset[str]:
        """The slots that must be called, and no others."""
        return frozenset(self.calls)

    @property
    def wanted_intents(self) -> int:
        """Number of intents of the message: `intents`, by default one for each call."""
        return len(self.calls) if self.intents is None else self.intents

    @property
    def is_about_safety(self) -> bool:
        """Whether the case tests that something is not done or said."""
        return self.kind is Kind.INJECTION or bool(self.never_says)

    @property
    def refers_across(self) -> bool:
        """Whether a sub-agent needs information from an earlier turn that called another sub-agent."""
        asked = {slot for past in self.history for slot in past.called}
        return any(asked - {slot} for slot in self.needs)

    @property
    def switch(self) -> tuple[str, str] | None:
        """(slot of the last earlier turn, slot of this message); None if the case is no switch."""
        if self.kind is not Kind.SWITCH or not self.history:
            return None
        before = self.history[-1].called
        return (before[0], self.calls[0]) if len(before) == len(self.calls) == 1 else None


class CaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of cases; `language` applies to cases without a language."""

    version: int
    cases: tuple[Case, ...]
    language: str = ENGLISH


class ScriptedSubAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The default answer of a sub-agent, and the status event that it reports first; empty: none."""

    answer: str
    status: str = ""


class Judge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The criterion of a vertical's judge, and the minimum mean score of the vertical, from 0 to 1."""

    criterion: str
    at_least: float

    def __post_init__(self) -> None:
        """Raise `ValueError` if the minimum is not from 0 to 1."""
        if not 0 <= self.at_least <= 1:
            raise ValueError("`at_least` is a share from 0 to 1")


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The format of a vertical's answers: maximum number of words (None: no maximum), and texts that must not occur."""

    at_most_words: int | None = None
    without: tuple[str, ...] = ()

    def broken_by(self, answer: str) -> Iterator[str]:
        """Yield a description of each rule that an answer breaks."""
        words = len(answer.split())
        if self.at_most_words is not None and words > self.at_most_words:
            yield f"has {words} words, at most {self.at_most_words} are asked for"
        yield from (f"has {one!r}" for one in self.without if one in answer)


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of all cases of a configuration.

    Attributes:
        sub_agents: slot to the script of its sub-agent.
        languages: languages in which each slot needs a case.
        admissions: language to words with which an answer admits that something is missing.
        judges: slot to its judge.
        formats: slot to its format. An answer must have the formats of all called sub-agents.
        fan_out_cap: fan-out cap of the measured sidecar.
        compact_above_turns: number of turns above which the measured sidecar compacts; lower than in production, so
            that short cases are compacted.
    """

    version: int
    sub_agents: Mapping[str, ScriptedSubAgent]
    languages: tuple[str, ...] = (ENGLISH,)
    admissions: Mapping[str, tuple[str, ...]] = {}
    judges: Mapping[str, Judge] = {}
    formats: Mapping[str, Format] = {}
    fan_out_cap: int = 3
    compact_above_turns: int = 6


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """All cases of a configuration.

    Attributes:
        suite: settings of all cases.
        cases: all cases, ordered by file name, then by position in the file.
        places: case id to `file:line`.
    """

    suite: Suite
    cases: Sequence[Case]
    places: Mapping[str, str]


def read_golden_set(folder: Path) -> GoldenSet:
    """Read `suite.yaml` and every other YAML file of a folder.

    Raises:
        UnusableFile: the message has one line for each problem, `file:line: problem`.
    """
    suite, lines = read_as(folder / SUITE, Suite)
    if suite.version != 1:
        raise UnusableFile(f"{lines.at('version')}: `version` must be 1")
    cases: list[Case] = []
    places: dict[str, str] = {}
    problems: list[str] = []
    for file in sorted(folder.glob("*.yaml")):
        if file.name == SUITE:
            continue
        try:
            for case, place in _cases_of(file, suite):
                if case.id in places:
                    problems.append(f"{place}: the id {case.id!r} is used at {places[case.id]} too")
                places.setdefault(case.id, place)
                cases.append(case)
        except UnusableFile as problem:
            problems.append(str(problem))
    if not cases and not problems:
        problems.append(f"{folder}: no file with cases beside {SUITE}")
    if len(cases) > MOST_CASES:
        problems.append(f"{folder}: {len(cases)} cases, at most {MOST_CASES}; sample fewer")
    if problems:
        raise UnusableFile("\n".join(problems))
    return GoldenSet(suite, cases, places)


def _cases_of(file: Path, suite: Suite) -> Iterator[tuple[Case, str]]:
    read, lines = read_as(file, CaseFile)
    if read.version != 1:
        raise UnusableFile(f"{lines.at('version')}: `version` must be 1")
    problems = []
    for number, case in enumerate(read.cases):
        problems += [f"{lines.at('cases', number)}: {case.id}: {one}" for one in _problems(case, suite, lines, number)]
    if problems:
        raise UnusableFile("\n".join(problems))
    for number, case in enumerate(read.cases):
        language = case.language or read.language
        yield msgspec.structs.replace(case, language=language), lines.at("cases", number)


def _problems(case: Case, suite: Suite, lines: Lines, number: int) -> Iterator[str]:
    known = set(suite.sub_agents)
    named = {
        "calls": case.calls,
        "forbidden": case.forbidden,
        "answers": tuple(case.answers),
        "history": tuple(slot for past in case.history for slot in past.called),
    }
    for field, slots in named.items():
        for slot in sorted(set(slots) - known):
            place = lines.at("cases", number, field).rpartition(":")[2]
            yield f"`{field}` (line {place}) names the sub-agent {slot!r}; {SUITE} has {', '.join(sorted(known))}"
    if case.kind is Kind.SWITCH and case.switch is None:
        yield "a switch needs a `history` whose last turn called one sub-agent, and one call"
    if case.kind is Kind.COMPACTION and not case.compacted:
        yield "a case of kind `compaction` needs `compacted: true`"
