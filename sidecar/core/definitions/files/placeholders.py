"""The only placeholder of a prompt block: the operator's fan-out cap, in blocks of the platform.

A block is text, but the cap is a setting of the sidecar. With `{{fan_out_cap}}` the routing block names the number in
force instead of a copy that can become outdated. The number is the same for all users of a sidecar, so that a whole
cohort still shares the prefix. Source: PC2-FR-7b.
"""

import re
from collections.abc import Iterator
from typing import Final

from sidecar.core.definitions.cards.card import PromptBlock
from sidecar.core.definitions.files.documents import SourceLocation
from sidecar.core.definitions.files.names import PLATFORM_OWNER
from sidecar.core.definitions.files.problems import Problem, quoted

FAN_OUT_CAP: Final = "{{fan_out_cap}}"
"""The only placeholder, in its only spelling."""
_IN_BRACES: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.-]{0,63})\s*\}\}")
_NAME: Final = "fan_out_cap"


def filled(text: str, fan_out_cap: int) -> str:
    """Return `text` with each placeholder replaced by the cap in decimal digits."""
    return text.replace(FAN_OUT_CAP, str(fan_out_cap))


def uses_fan_out_cap(block: PromptBlock) -> bool:
    """Return whether `block` contains the placeholder."""
    return FAN_OUT_CAP in block.instructions


def problems_with_placeholders(place: SourceLocation, text: str, owner: str) -> Iterator[Problem]:
    """Yield an error for each different `{{word}}` in a block's `text` that is no valid placeholder.

    Args:
        place: of the text.
        text: the block's instructions.
        owner: of the block; only blocks of the platform may contain the cap.
    """
    for written, name in dict.fromkeys((found[0], found[1]) for found in _IN_BRACES.finditer(text)):
        if name != _NAME:
            note = f"{quoted(written)} is no placeholder; the only one is {FAN_OUT_CAP}"
            yield place.error(note, key=name, choices=(_NAME,))
        elif written != FAN_OUT_CAP:
            yield place.error(f"{quoted(written)} must be written {FAN_OUT_CAP}, without blanks", key=name)
        elif owner != PLATFORM_OWNER:
            note = f"{FAN_OUT_CAP} is filled into blocks of the platform only, since only they speak of routing"
            yield place.error(note, key=name)
