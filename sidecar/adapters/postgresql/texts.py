r"""Escapes U+0000 in JSON text, because a text in PostgreSQL cannot contain it.

The character is stored as two characters of the private use area. The first of them is the escape character; where it
occurs in a text itself, it is escaped as well. JSON text always contains U+0000 as `\u0000`.
"""

import re
from typing import Final

ESCAPE: Final = "\ue000"
ITSELF: Final = ESCAPE + "\ue001"
NUL: Final = ESCAPE + "\ue002"
WRITTEN: Final = re.compile(r"\\(?:\\|u0000)")
"""An escaped backslash, which the characters `u0000` may follow, or an escaped U+0000."""


def escape_nul(json_text: str) -> str:
    """Return JSON text in a form that the database can store."""
    # First the escape character, then U+0000: the reverse order would escape the escape characters just inserted.
    if ESCAPE in json_text:
        json_text = json_text.replace(ESCAPE, ITSELF)
    if "\\u0000" in json_text:
        json_text = WRITTEN.sub(lambda match: match[0] if match[0] == "\\\\" else NUL, json_text)
    return json_text


def unescape_nul(json_text: str) -> str:
    """Return the original text of `escape_nul`."""
    if ESCAPE not in json_text:
        return json_text
    # The reverse of the order above. With `ITSELF` first, a restored escape character could begin a false `NUL`.
    return json_text.replace(NUL, "\\u0000").replace(ITSELF, ESCAPE)
