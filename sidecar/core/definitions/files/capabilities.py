"""What an agent can and cannot do stands between tags, in blocks of category `capabilities` and nowhere else.

Source: PC1-D-33, PC1-D-34.
"""

import re
from collections.abc import Iterator
from typing import Final

from sidecar.core.definitions.cards.card import BlockCategory
from sidecar.core.definitions.files.documents import Place
from sidecar.core.definitions.files.problems import Problem, quoted

TAGS: Final = ("<can_do>", "</can_do>", "<cannot_do>", "</cannot_do>")
"""Exactly these, once each, in this order."""
_LIKE_A_TAG: Final = re.compile(r"<\s*/?\s*can(?:not)?[_ -]?do\b[^>]*>?", re.IGNORECASE)
_FORM: Final = "<can_do>…</can_do>, then <cannot_do>…</cannot_do>"


def problems_with_capabilities(place: Place, text: str, category: BlockCategory) -> Iterator[Problem]:
    """Yield at most one error.

    Args:
        place: of the text.
        text: the block's instructions; empty text is somebody else's problem.
        category: the block's.
    """
    tags = tuple(found[0] for found in _LIKE_A_TAG.finditer(text))
    if category is not BlockCategory.CAPABILITIES:
        if tags:
            yield place.error(f"{quoted(tags[0])} belongs into a block of type capabilities")
        return
    odd = next((tag for tag in tags if tag not in TAGS), None)
    if odd is not None:
        yield place.error(f"{quoted(odd)} is not one of the tags of a capabilities block: {_FORM}")
    elif text and not _is_well_formed(text, tags):
        yield place.error(f"of a capabilities block need {_FORM}")


def _is_well_formed(text: str, tags: tuple[str, ...]) -> bool:
    """Return whether the four tags are there, and something between each pair."""
    if tags != TAGS:
        return False
    between = re.split("|".join(TAGS), text)
    return bool(between[1].strip() and between[3].strip())
