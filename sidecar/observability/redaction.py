"""The one place through which every line goes that the process writes: known secrets and tokens are taken out.

Source: reliability row 59.
"""

import re
from collections.abc import Iterable
from typing import Final

REPLACEMENT: Final = "[redacted]"
SHORTEST: Final = 6
"""Characters; a shorter secret would tear holes into ordinary words."""
TOKENS: Final = re.compile(r"v1\.[A-Za-z0-9]+\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}")
"""Surface tokens and grants, which are never known beforehand."""
BEARER: Final = re.compile(r"(?i)(authorization['\":=\s]+(?:[a-z]+\s+)?|bearer\s+)[^\s'\",}]{6,}")
SECRET_NAME: Final = re.compile(r"(?i)secret|token|password|passwd|credential|api_?key|private_?key")


class Redactor:
    """Takes secrets out of text. Starts with none known."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """From now on, take these out."""
        self._secrets.update(secret for secret in secrets if len(secret) >= SHORTEST)
        longest_first = sorted(self._secrets, key=lambda secret: (-len(secret), secret))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def learn_settings(self, settings: object) -> None:
        """Learn the values that stand under a telling name in a plugin's settings."""
        self.learn(_secret_values(settings, telling=False))

    def clean(self, text: str) -> str:
        """Return the text without secrets and tokens."""
        if self._known is not None:
            text = self._known.sub(REPLACEMENT, text)
        return BEARER.sub(rf"\1{REPLACEMENT}", TOKENS.sub(REPLACEMENT, text))


def _secret_values(value: object, *, telling: bool) -> Iterable[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secret_values(inner, telling=telling or bool(SECRET_NAME.search(str(name))))
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_values(inner, telling=telling)
    elif telling and isinstance(value, str):
        yield value
