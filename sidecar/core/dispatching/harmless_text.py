"""Removes from a sub-agent's text what a person cannot see, or what a model may read as a command of its template.

Removed: control characters and escape sequences, bidi controls, Unicode tags, invisible format characters. Broken by a
blank: special tokens of model templates. Everything else is unchanged, in any script. A joiner, mark or variation
selector stays where a script needs it: alone, beside a character that is not ASCII.
"""

import re
from typing import Final

REMOVED: Final = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Characters that no script needs in a text; without tab, line feed and carriage return."""
JOINERS: Final = r"\u00ad\u061c\u200b-\u200f"
SELECTORS: Final = r"\ufe00-\ufe0f"
RARE_SELECTORS: Final = r"\U000e0100-\U000e01ef"
IDEOGRAPHS: Final = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
FLAG: Final = "\U0001f3f4"
"""The black flag, with which a flag that is written with tags begins."""
NATIONS: Final = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in nation) for nation in ("gbeng", "gbsct", "gbwls")
)
"""The flags of England, Scotland and Wales, the only ones in use that are written with tags."""

_FLAGS: Final = re.compile(rf"({FLAG}(?:{NATIONS})\U000e007f)")
# Bounded repetitions: of a longer sequence, `_REMOVED` removes the escape character, which makes the rest plain text.
_ESCAPES: Final = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]")
_REMOVED: Final = re.compile(rf"[{REMOVED}]+")
# These selectors belong after an ideograph. After any other character they are invisible and could carry a message.
_RARE: Final = re.compile(rf"[{RARE_SELECTORS}](?<![{IDEOGRAPHS}].)[{RARE_SELECTORS}]*", re.DOTALL)
# The look-behind comes after the first character: a pattern that began with it would be tried at every position.
_BETWEEN_ASCII: Final = re.compile(
    rf"[{JOINERS}{SELECTORS}](?<![^!-~].)[{JOINERS}{SELECTORS}]*(?![^!-~{JOINERS}{SELECTORS}])", re.DOTALL
)
# No script needs more than one selector and one joiner in a row; a longer row could carry a message.
_REPEATED: Final = re.compile(rf"((?>[{SELECTORS}]?[{JOINERS}]?))[{JOINERS}{SELECTORS}]+")
_TOKEN: Final = re.compile(
    r"<(?=[|\uff5c][^\s<>|\uff5c]{1,64}[|\uff5c]>|(?:start_of_turn|end_of_turn|bos|eos)>|</?SYS>>)|\[(?=/?INST\])"
)
_SUSPECT: Final = re.compile(rf"[{REMOVED}{JOINERS}{SELECTORS}{RARE_SELECTORS}]|{_TOKEN.pattern}")
"""Finds the first place at which a text may need a change; most texts have none."""


def harmless(text: str) -> str:
    """Return the text without what this module removes; the same object if nothing changes.

    Every pattern begins with the character that it searches for, so that the time grows linearly with the text.
    """
    if _SUSPECT.search(text) is None:
        return text
    parts = _FLAGS.split(_ESCAPES.sub("", text))  # every second part is a flag, whose tags stay
    parts[::2] = [_REMOVED.sub("", part) for part in parts[::2]]
    # Joined before the search for tokens: a removed character may have split a token to hide it.
    shown = _REPEATED.sub(r"\1", _BETWEEN_ASCII.sub("", _RARE.sub("", "".join(parts))))
    shown = _TOKEN.sub(r"\g<0> ", shown)
    # The same object tells the caller that nothing was changed.
    return text if shown == text else shown
