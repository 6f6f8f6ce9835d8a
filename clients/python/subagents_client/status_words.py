"""Turns the typed progress of sub-agents into words for the user, in the orchestrator's voice.

A template is text with placeholders such as `{store}`, filled from the update's attributes. Placeholders are names and
nothing else: no attribute access, no indexing, no format specifications. Each type has one or more templates, tried in
order: the first whose placeholders can all be filled is used, so the last one should have none.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from subagents_client.events import StatusUpdate

Templates = Mapping[str, Mapping[str, str | Sequence[str]]]
"""Locale to type to templates."""

DEFAULT_LOCALE: Final = "en"
PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
LONGEST_VALUE: Final = 80
"""Characters of an attribute that are shown."""

ENGLISH: Final[Mapping[str, Sequence[str]]] = {
    "searching_offers": ("Looking for offers at {store}…", "Looking for offers…"),
    "matching_receipt": ("Matching your receipt from {store}…", "Matching your receipt…"),
    "looking_up_purchase_history": ("Looking through your purchases at {store}…", "Looking through your purchases…"),
    "looking_up_points_balance": ("Checking your points balance…",),
    "checking_order_status": ("Checking order {order}…", "Checking your order…"),
    "still_working": ("Still working on it…",),
}


class StatusRenderer:
    """Words for status updates, by locale.

    Args:
        templates: by locale, then by type; they come before the built-in English ones.
        default_locale: used where the user's own locale has no words.

    Raises:
        ValueError: a template has a brace that is not part of a placeholder, or no text at all.
    """

    def __init__(self, templates: Templates | None = None, *, default_locale: str = DEFAULT_LOCALE) -> None:
        self._words: dict[str, dict[str, Sequence[str]]] = {DEFAULT_LOCALE: dict(ENGLISH)}
        self._default = _normal(default_locale)
        for locale, by_type in (templates or {}).items():
            if not isinstance(by_type, Mapping):
                raise ValueError(f"{locale}: must be a table of types and their templates")
            words = self._words.setdefault(_normal(locale), {})
            for kind, given in by_type.items():
                words[kind] = _checked(locale, kind, given)

    @classmethod
    def from_toml(cls, path: Path, *, default_locale: str = DEFAULT_LOCALE) -> "StatusRenderer":
        """Read templates from a file: one table per locale, one key per type, a text or a list of texts.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not TOML, or holds something else than templates.
        """
        return cls(tomllib.loads(path.read_text(encoding="utf-8")), default_locale=default_locale)

    def render(self, update: StatusUpdate, locale: str | None = None) -> str | None:
        """Return one line for an update, or None if there are no words for its type. Never raises.

        Args:
            update: what the sub-agents report. If several share it, its attributes belong to the newest report only
                and are left out.
            locale: the user's, such as `en-US`: then `en-US`, `en` and the default locale are tried.
        """
        attributes = update.attributes if len(update.sub_agent_ids) <= 1 else {}
        values = {name: _shown(value) for name, value in attributes.items()}
        usable = {name for name, value in values.items() if value}
        for candidate in self._chain(locale):
            for template in self._words.get(candidate, {}).get(update.type, ()):
                if usable.issuperset(PLACEHOLDER.findall(template)):
                    return PLACEHOLDER.sub(lambda found: values[found[1]], template)
        return None

    def _chain(self, locale: str | None) -> Sequence[str]:
        chain: list[str] = []
        for start in (_normal(locale or ""), self._default, DEFAULT_LOCALE):
            parts = start.split("-") if start else []
            chain += ["-".join(parts[:length]) for length in range(len(parts), 0, -1)]
        return list(dict.fromkeys(chain))


def _normal(locale: str) -> str:
    return locale.replace("_", "-").lower()


def _checked(locale: str, kind: str, given: object) -> Sequence[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not texts:
        raise ValueError(f"{locale}.{kind}: must be a text or a list of texts")
    checked: list[str] = []
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{locale}.{kind}: a template must be a text that is not empty")
        rest = PLACEHOLDER.sub("", text)
        if "{" in rest or "}" in rest:
            raise ValueError(f"{locale}.{kind}: only placeholders such as {{store}} may stand in braces: {text!r}")
        checked.append(text)
    return checked


def _shown(value: str) -> str:
    """Return an attribute as one short line: line breaks become spaces, control and direction marks go."""
    spaced = " ".join(value.split())
    return "".join(one for one in spaced if unicodedata.category(one)[0] != "C")[:LONGEST_VALUE].strip()
