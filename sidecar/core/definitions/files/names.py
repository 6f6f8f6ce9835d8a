"""The allowed forms of names in a configuration."""

import re
from typing import Final

from sidecar.core.definitions.files.fields import Fields
from sidecar.core.identifiers import DEFINITION_SIDE

ID_RULE: Final = "is not an id: 1 to 60 of a-z, 0-9, _ and -, the first a letter or digit"
MODEL_KEY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}\Z")
MODEL_RULE: Final = "is not a model key: 1 to 60 of a-z, 0-9, dot, _ and -, the first a letter or digit"
FLAG: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}\Z")
FLAG_RULE: Final = "is not a flag name: 1 to 128 of a-z, 0-9, _ and -, the first a letter or digit"
WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
WORD_RULE: Final = "must be 1 to 64 letters, digits, dots, _ and -, the first a letter or digit"

FLAG_PREFIX: Final = "ai_assistant_"
SUBAGENT_FLAG_PREFIX: Final = "ai_assistant_subagent_"
LEGACY_FLAGS: Final = ("consumer_agent_xml_prompt", "consumer_agent_sub_agents_as_tools")
"""Flags that are older than the naming convention, which applies only to new flags. Source: TN-96."""

RENDER_PREFIX: Final = "render_"

REQUIRED_BLOCKS: Final = ("persona-fetch-assistant", "format-conversational", "safety-base")
"""The blocks at the beginning of every assembled prompt, in this order. Source: PC1-FR-12."""
PLATFORM_BLOCKS: Final = (*REQUIRED_BLOCKS, "format-streaming", "safety-financial")
"""Block names only the platform may own. Source: PC1-D-37."""
PLATFORM_OWNER: Final = "platform"


def read_id(fields: Fields, key: str) -> str:
    """Return a required id of a definition, slot, tool or block; empty if it is missing or wrong."""
    if not fields.has(key):
        return fields.text(key)
    return optional_id(fields, key) or ""


def optional_id(fields: Fields, key: str) -> str | None:
    """Return an optional id, or None if there is none or it is wrong."""
    return fields.matching(key, DEFINITION_SIDE, ID_RULE)
