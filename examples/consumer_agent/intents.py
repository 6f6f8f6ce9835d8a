"""Takes a message apart into wishes and finds the tool whose description fits each: words, no understanding."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from examples.consumer_agent.model import ToolOffer

BOUNDARY: Final = re.compile(r"[?!.;]+\s*|,\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
LEADING: Final = re.compile(r"^(?:and|also|then)\s+", re.IGNORECASE)
WORD: Final = re.compile(r"[a-z]+")
NOT_ITS_JOB: Final = re.compile(r"\bNot for\b.*", re.DOTALL)
"""From here on a description says what the tool is not for."""

EMPTY_WORDS: Final = frozenset(
    "a about all also an any are at be by can do does for from get give go has have how i if in is it its "
    "let look many me more much my no nor not of on or our out please see so some that the them then "
    "there they this those to up us user want was we what when who with you your".split()
)
SAME_AS: Final[Mapping[str, str]] = {
    "bargain": "offer",
    "deal": "offer",
    "discount": "offer",
    "package": "order",
    "parcel": "order",
}


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing the user wants, and the tool that can do it."""

    words: str
    tool: ToolOffer


def intents_in(message: str, tools: Sequence[ToolOffer]) -> Sequence[Intent]:
    """Return the wishes in a message, in its order; none if no tool fits any part of it.

    A part that fits no tool belongs to the wish before it.
    """
    found: list[Intent] = []
    for part in (LEADING.sub("", part.strip()) for part in BOUNDARY.split(message)):
        tool = fitting(part, tools) if part else None
        if tool is not None:
            found.append(Intent(part, tool))
        elif part and found:
            found[-1] = Intent(f"{found[-1].words}, {part}", found[-1].tool)
    return found


def fitting(part: str, tools: Sequence[ToolOffer]) -> ToolOffer | None:
    """Return the tool whose description shares most with the words; words that several tools have count less."""
    vocabularies = [Counter(stems(NOT_ITS_JOB.sub("", tool.description))) for tool in tools]
    wanted = set(stems(part))
    best, best_score = None, 0.0
    for tool, vocabulary in zip(tools, vocabularies, strict=True):
        score = sum(
            vocabulary[word] / sum(word in one for one in vocabularies) for word in wanted if word in vocabulary
        )
        if score > best_score:
            best, best_score = tool, score
    return best


def stems(text: str) -> Sequence[str]:
    """Return the words that mean something, without plural endings."""
    words = (word for word in WORD.findall(text.lower()) if word not in EMPTY_WORDS)
    cut = (word[:-1] if word.endswith("s") and not word.endswith("ss") else word for word in words)
    return [SAME_AS.get(word, word) for word in cut if word]
