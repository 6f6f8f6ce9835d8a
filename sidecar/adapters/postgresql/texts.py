r"""A text of PostgreSQL has no place for U+0000; ours may hold one.

It is kept as two characters of the private use area, of which the first never stands alone. All at the level of JSON
text, where U+0000 is always written `\u0000`.
"""

import re
from typing import Final

ESCAPE: Final = "\ue000"
ITSELF: Final = ESCAPE + "\ue001"
NUL: Final = ESCAPE + "\ue002"
WRITTEN: Final = re.compile(r"\\(?:\\|u0000)")
"""Either a backslash, which is written as two and may be followed by the characters `u0000`, or U+0000 itself."""


def escape_nul(json_text: str) -> str:
    """Return JSON text in a form that the database can store."""
    if ESCAPE in json_text:
        json_text = json_text.replace(ESCAPE, ITSELF)
    if "\\u0000" in json_text:
        json_text = WRITTEN.sub(lambda found: found[0] if found[0] == "\\\\" else NUL, json_text)
    return json_text


def unescape_nul(json_text: str) -> str:
    """Return the original text of `escape_nul`."""
    if ESCAPE not in json_text:
        return json_text
    return json_text.replace(NUL, "\\u0000").replace(ITSELF, ESCAPE)
