"""`StatusRenderer` turns progress of sub-agents into a text for the user.

A template is text with placeholders such as `{store}`, filled from the update's attributes. A placeholder is only a
name, without attribute access, indexing or format specification. Each type has one or more templates. The first of them
whose placeholders can all be filled is used; the last one should therefore have none.
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
"""Maximum number of characters of an attribute's value in a text; the rest is cut off."""

ENGLISH: Final[Mapping[str, Sequence[str]]] = {
    "searching_offers": ("Looking for offers at {store}…", "Looking for offers…"),
    "matching_receipt": ("Matching your receipt from {store}…", "Matching your receipt…"),
    "looking_up_purchase_history": ("Looking through your purchases at {store}…", "Looking through your purchases…"),
    "looking_up_points_balance": ("Checking your points balance…",),
    "checking_order_status": ("Checking order {order}…", "Checking your order…"),
    "still_working": ("Still working on it…",),
}


class StatusRenderer:
    """Renders status updates as text, with templates by locale and type.

    Args:
        templates: locale to type to templates. They take precedence over the built-in English templates.
        default_locale: locale whose templates are used if the user's locale has none for a type.

    Raises:
        ValueError: a template is empty, or has a brace that is not part of a placeholder.
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
        """Return a renderer with the templates of a TOML file.

        The file has one table per locale, with one key per type. A value is a template or a list of templates.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not TOML, or contains something other than templates.
        """
        return cls(tomllib.loads(path.read_text(encoding="utf-8")), default_locale=default_locale)

    def render(self, update: StatusUpdate, locale: str | None = None) -> str | None:
        """Return an update as one line of text; None if no template fits. Never raises.

        Args:
            update: the progress. If it combines reports of several sub-agents, its attributes are ignored, because they
                belong to the newest report only.
            locale: the user's locale. For `en-US`, the templates of `en-US`, `en`, the default locale and English are
                tried in this order.
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
    """Return a value as one short line: line breaks become spaces; control and direction characters are removed."""
    spaced = " ".join(value.split())
    return "".join(one for one in spaced if unicodedata.category(one)[0] != "C")[:LONGEST_VALUE].strip()
