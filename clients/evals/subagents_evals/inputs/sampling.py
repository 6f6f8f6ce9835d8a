"""Samples turns of production from the record, redacts them, and writes a file that a person labels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from subagents_client import Episode, SidecarClient
from subagents_client.recorded_history import TurnFilter
from subagents_client.recorded_turns import TurnRow, TurnState
from subagents_evals.inputs.cases import Case, CaseFile, EarlierTurn, Kind, read_golden_set
from subagents_evals.inputs.strict_yaml import UnusableFile, read_as

TURNS: Final = 50
MOST_TURNS: Final = 1000
MOST_LISTED: Final = 20_000
HISTORY: Final = 6
"""Maximum number of earlier turns of a case."""
UNLABELLED: Final = "label me"
REDACTIONS: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    ("<email>", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("<link>", re.compile(r"\bhttps?://\S+|\bwww\.\S+")),
    ("<token>", re.compile(r"\b(?:v1|rt1)\.[\w.-]+|\beyJ[\w-]+\.[\w.-]+|\b[A-Za-z0-9_-]{32,}\b")),
    ("<iban>", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")),
    ("<number>", re.compile(r"\+?\d[\d ()/.-]{5,}\d")),
)
"""Replacement and pattern, in order: an earlier pattern may contain text that a later one would match in part."""
HEADER: Final = """\
# Turns from production, redacted by pattern: read every line before this file goes anywhere, and remove what is left.
# In each, replace `calls: {unlabelled}` by the sub-agents that should have been asked, e.g. [shop] or []; `routed` is
# what production did. Delete turns that cannot be judged. Then: sidecar eval add <this file> <configuration>
"""

ENDED: Final = TurnFilter(state=TurnState.ENDED)


class Sampled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One turn of the file; production called `routed`, and a person enters in `calls` what is right."""

    id: str
    message: str
    routed: tuple[str, ...]
    calls: tuple[str, ...] | str = UNLABELLED
    language: str
    history: tuple[EarlierTurn, ...] = ()


class SampledFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file that `sidecar eval sample` writes."""

    version: int
    seed: str
    sampled: tuple[Sampled, ...]


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes text that identifies people: the patterns, the user of the turn, and `words` of the operator."""

    words: Sequence[str] = ()

    def text(self, text: str, principal: str) -> str:
        """Return the text with a placeholder for each removed part."""
        for word in sorted({principal, *self.words} - {""}, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "<name>", text, flags=re.IGNORECASE)
        for name, pattern in REDACTIONS:
            text = pattern.sub(name, text)
        return text


async def sampled(client: SidecarClient, seed: str, turns: int, language: str, redactor: Redactor) -> Sequence[Sampled]:
    """Return turns of the record, chosen by seed: the same seed chooses the same turns of the same record.

    A turn is chosen by the hash of seed and turn id, so that turns added later change little of the choice.

    Raises:
        SubagentsError: the record cannot be read.
    """
    rows = await _ended(client)
    rows.sort(key=lambda row: sha256(f"{seed}\n{row.turn_id}".encode()).digest())
    called = {row.turn_id: tuple(row.sub_agent_ids) for row in rows}
    episodes: dict[tuple[str, str], Episode] = {}
    taken: list[Sampled] = []
    for row in rows:
        key = (row.episode_id, row.principal)
        if key not in episodes:
            episodes[key] = await client.read_episode(*key)
        message, history = _said(row, episodes[key], called, redactor)
        if message:
            name = f"sampled-{sha256(f'{seed}{row.turn_id}'.encode()).hexdigest()[:10]}"
            routed = tuple(row.sub_agent_ids)
            taken.append(Sampled(id=name, message=message, routed=routed, language=language, history=history))
        if len(taken) == turns:
            break
    return taken


async def _ended(client: SidecarClient) -> list[TurnRow]:
    rows: list[TurnRow] = []
    token = ""
    while len(rows) < MOST_LISTED:
        page = await client.history.list_turns(ENDED, page_size=200, page_token=token)
        rows += page.turns
        token = page.next_page_token
        if not token:
            break
    return rows


def _said(
    row: TurnRow, episode: Episode, called: Mapping[str, tuple[str, ...]], redactor: Redactor
) -> tuple[str, tuple[EarlierTurn, ...]]:
    """Return the turn's message and what was said before it; no message if the episode no longer has it.

    Args:
        row: row of the turn.
        episode: episode of the turn.
        called: turn id to the called sub-agents, including failed ones. Of a turn that is not listed, only the
            sub-agents whose components were shown are known.
        redactor: removes text that identifies people.
    """
    place = next((at for at, turn in enumerate(episode.turns) if turn.turn_id == row.turn_id), None)
    if place is None or not episode.turns[place].user_message.strip():
        return "", ()
    earlier = tuple(
        EarlierTurn(
            redactor.text(turn.user_message, row.principal),
            redactor.text(turn.narration, row.principal),
            called.get(turn.turn_id, tuple(dict.fromkeys(one.sub_agent_id for one in turn.references))),
        )
        for turn in episode.turns[max(0, place - HISTORY) : place]
        if turn.user_message.strip() and turn.narration.strip()
    )
    return redactor.text(episode.turns[place].user_message, row.principal), earlier


def write_sampled(seed: str, turns: Sequence[Sampled], file: Path) -> None:
    """Write the file to label, readable only for its owner. Raises `UnusableFile` if the file exists."""
    content: Mapping[str, Any] = msgspec.to_builtins(SampledFile(1, seed, tuple(turns)))
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=4096)
    try:
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(HEADER.format(unlabelled=UNLABELLED) + text, "utf-8")
    except OSError as error:
        raise UnusableFile(f"{file}: cannot be written ({type(error).__name__}); name a new file") from None


@dataclass(frozen=True, slots=True)
class Added:
    """The cases that were added, and the ids of those that production had routed exactly as labelled."""

    cases: Sequence[Case]
    routed_right: Sequence[str]


def add_labelled(file: Path, sets: Path) -> Added:
    """Add a labelled file to a golden set, as a new file whose name contains the file's hash.

    Raises:
        UnusableFile: a turn has no label, names an unknown sub-agent, or is already in the set. Nothing is added.
    """
    read, lines = read_as(file, SampledFile)
    golden = read_golden_set(sets)
    problems = list(_unusable(read.sampled, frozenset(golden.suite.sub_agents), golden.places))
    if problems:
        raise UnusableFile("\n".join(f"{lines.at('sampled', number)}: {problem}" for number, problem in problems))
    cases = [
        Case(
            id=one.id,
            message=one.message,
            calls=tuple(one.calls),
            kind=Kind.SAMPLED,
            language=one.language,
            history=one.history,
        )
        for one in read.sampled
    ]
    target = sets / f"sampled-{sha256(file.read_bytes()).hexdigest()[:8]}.yaml"
    content = msgspec.to_builtins(CaseFile(1, tuple(cases)))
    slim = [
        {name: value for name, value in each.items() if value} | {"calls": each["calls"]} for each in content["cases"]
    ]
    text = yaml.safe_dump({"version": 1, "cases": slim}, sort_keys=False, allow_unicode=True, width=4096)
    try:
        with target.open("x", encoding="utf-8") as opened:
            opened.write(f"# From production, seed {read.seed!r}; redacted and labelled.\n{text}")
    except OSError as error:
        raise UnusableFile(f"{target}: cannot be written ({type(error).__name__})") from None
    right = [one.id for one in read.sampled if set(one.routed) == set(one.calls)]
    return Added(cases, right)


def _unusable(turns: Sequence[Sampled], slots: frozenset[str], places: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    if not turns:
        yield 0, "no turn; sample again"
    for number, one in enumerate(turns):
        if isinstance(one.calls, str):
            yield number, f"{one.id}: `calls` is not labelled; write e.g. [shop], or [] for small talk"
        elif unknown := sorted(set(one.calls) - slots):
            yield number, f"{one.id}: no sub-agent {unknown[0]!r}; one of {', '.join(sorted(slots))}"
        if one.id in places:
            yield number, f"{one.id}: in the set already, at {places[one.id]}"
