"""Assembles the system prompt of one turn: a prefix that a whole cohort shares, then the values of the user.

The only template value is the operator's cap (`placeholders`), so no value of a user can enter the prefix.
"""

import datetime
import json
from collections.abc import Container
from hashlib import sha256
from typing import Final

from msgspec import Struct

from sidecar.core.definitions.cards.card import Card, PromptBlock
from sidecar.core.identifiers import Digest

UNKNOWN: Final = "unknown"
VALUE_AT_MOST: Final = 256
"""The most characters of one dynamic value in the prompt."""
_QUOTED: Final = json.JSONEncoder(ensure_ascii=False).encode


class DynamicContext(Struct, frozen=True):
    """The only four values about user and turn in a prompt. Source: PC1-FR-6b.

    Attributes:
        date: at the location of the user, given by the caller.
        location: None: unknown.
        user_id: the user of the turn.
        locale: BCP 47, e.g. `en-US`; None: unknown.
    """

    date: datetime.date
    location: str | None
    user_id: str
    locale: str | None


class AssembledPrompt(Struct, frozen=True):
    """A system prompt, which is `prefix + suffix`.

    Attributes:
        prefix: byte-identical for all users of a cohort and for consecutive turns of one user. Source: PC1-D-20.
        suffix: the dynamic context.
        prefix_digest: of the prefix's UTF-8 bytes.
    """

    prefix: str
    suffix: str
    prefix_digest: Digest


def assemble(card: Card, flags_on: Container[str], dynamic: DynamicContext) -> AssembledPrompt:
    """Assemble the prompt of one turn.

    Args:
        card: the card of the orchestrator.
        flags_on: names of the flags that are on for the user. Only flags that gate a block of the card are looked up.
        dynamic: the values that differ for each user and turn.

    Source: PC1-FR-6, PC1-D-18 to PC1-D-24.
    """
    prefix = prefix_of(card.blocks, flags_on)
    digest = Digest(f"sha256:{sha256(prefix.encode()).hexdigest()}")
    return AssembledPrompt(prefix=prefix, suffix=suffix_of(dynamic), prefix_digest=digest)


def prefix_of(blocks: tuple[PromptBlock, ...], flags_on: Container[str]) -> str:
    """Return the blocks in order with blank lines between them, without blocks whose flag is off."""
    shown = (block for block in blocks if block.feature_gated is None or block.feature_gated in flags_on)
    # The same end after each block: a gated block that is left out does not change the text of the others.
    return "".join(block.instructions.strip() + "\n\n" for block in shown)


def suffix_of(dynamic: DynamicContext) -> str:
    """Return the four values, one per line, quoted so that no value can end its line or the section."""
    lines = (
        # Not quoted: a date contains only digits and hyphens.
        ("date", dynamic.date.isoformat()),
        ("location", _shown(dynamic.location)),
        ("user_id", _shown(dynamic.user_id)),
        ("locale", _shown(dynamic.locale)),
    )
    return "<dynamic_context>\n" + "".join(f"{name}: {value}\n" for name, value in lines) + "</dynamic_context>\n"


def _shown(value: str | None) -> str:
    """Return a JSON string without line breaks of any kind and without `<` and `>`; `unknown` for None or blank."""
    if value is None or not value.strip():
        return UNKNOWN
    # The location and the locale come from the client. Cut and quoted, they cannot add instructions of their own to the
    # prompt.
    text = _QUOTED(value[:VALUE_AT_MOST])
    if text.isprintable() and "<" not in text and ">" not in text:
        return text
    return "".join(sign if sign.isprintable() and sign not in "<>" else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1] if not sign.isascii() else f"\\u{ord(sign):04x}"
