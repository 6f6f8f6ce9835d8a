"""Redacts secrets and tokens in texts. Every log line, readiness page and exported event passes through this module.

Source: reliability row 59.
"""

import re
from collections.abc import Iterable
from typing import Final

REPLACEMENT: Final = "[redacted]"
SHORTEST: Final = 6
"""Characters. Shorter secrets are not redacted: they would match parts of ordinary words."""
TOKENS: Final = re.compile(
    r"v1\.[A-Za-z0-9]+\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"  # surface tokens
    r"|gr1\.[A-Za-z0-9_-]{16,}(?:\.end)?"  # grants
    r"|rt1\.[A-Za-z0-9_-]{16,}\.[0-9a-f]{32,}"  # role tokens
    r"|(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))e[w-z0-9_-][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{32,}"
)
"""Tokens, recognised by their form because their values are not known. The last alternative is a JWT: its first part
is base64 of a JSON object. In a line of JSON an escaped newline (`\\n`) may precede it, hence the lookbehind."""
HEADERS: Final = re.compile(
    r"(?i)(x-subagents-[a-z-]*(?:secret|token|grant)[a-z-]*(?:['\"]\s*[:=,]|\s*[:=])\s*(?:value\s*=\s*)?b?['\"]?)"
    r"[^\s'\",)}\]]{6,}"
)
"""gRPC metadata in the notations of logs and libraries: `name: value`, `('name', b'value')`."""
# HTTP credentials, which a client library may quote in an error.
BEARER: Final = re.compile(r"(?i)(authorization['\":=\s]+(?:[a-z]+\s+)?|bearer\s+)[^\s'\",}]{6,}")
MAY_HOLD_TOKENS: Final = re.compile(r"\.[A-Za-z0-9_-]{16}")
"""A cheap test before `TOKENS`: every token has a long part after a dot, and few other lines have one. The test takes a
hundredth of the time of `TOKENS`."""
# Plugins name their settings themselves, so a secret can only be recognised by a telling name.
SECRET_NAME: Final = re.compile(r"(?i)secret|token|password|passwd|credential|api_?key|private_?key")


class Redactor:
    """Replaces tokens and learnt secrets by `REPLACEMENT`."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[str]) -> None:
        """Redact these secrets from now on."""
        self._secrets.update(secret for secret in secrets if len(secret) >= SHORTEST)
        # If one secret is a part of another, the longer one must be replaced first, or its rest would stay.
        longest_first = sorted(self._secrets, key=lambda secret: (-len(secret), secret))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def learn_settings(self, settings: object) -> None:
        """Learn each value of a plugin's settings whose name, or a table around it, matches `SECRET_NAME`."""
        self.learn(_secret_values(settings, telling=False))

    def clean(self, text: str) -> str:
        """Return the text without secrets and tokens.

        A substring test precedes each pattern. Without these tests the patterns took half of the time of ending a turn,
        whose log line is long and has no secret.
        """
        if self._known is not None and any(secret in text for secret in self._secrets):
            text = self._known.sub(REPLACEMENT, text)
        if MAY_HOLD_TOKENS.search(text):
            text = TOKENS.sub(REPLACEMENT, text)
        if text.isascii():
            small = text.lower()  # one copy, for two cheap substring tests
            bearer, headers = "authorization" in small or "bearer" in small, "x-subagents-" in small
        else:
            bearer = headers = True  # with (?i) a pattern also matches e.g. U+017F for `s`, which `lower` keeps
        if headers:
            text = HEADERS.sub(rf"\1{REPLACEMENT}", text)
        return BEARER.sub(rf"\1{REPLACEMENT}", text) if bearer else text


def _secret_values(value: object, *, telling: bool) -> Iterable[str]:
    """Yield the texts in a value that are secrets; `telling`: a name around the value says that it is one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secret_values(inner, telling=telling or bool(SECRET_NAME.search(str(name))))
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_values(inner, telling=telling)
    elif telling and isinstance(value, str):
        yield value
