"""Reads the entries of `agent_config.yaml::models`, `::tools` and the files of `prompts/components/`.

Part of the loading of a configuration: `registries` calls this for each entry. Problems are collected, so that an
author sees all of them at once.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from sidecar.core.definitions.cards.card import BlockCategory, ModelEntry, PromptBlock, ToolEntry, ToolOperation
from sidecar.core.definitions.files.addresses import GRPC_SCHEMES, HTTP_SCHEMES, problem_with_scheme
from sidecar.core.definitions.files.documents import Document, Entry, SourceLocation
from sidecar.core.definitions.files.fields import Fields
from sidecar.core.definitions.files.names import (
    FLAG,
    FLAG_PREFIX,
    FLAG_RULE,
    LEGACY_FLAGS,
    MODEL_KEY,
    MODEL_RULE,
    WORD,
    WORD_RULE,
    optional_id,
    read_id,
)
from sidecar.core.definitions.files.placeholders import problems_with_placeholders
from sidecar.core.definitions.files.problems import Problem, quoted
from sidecar.core.definitions.files.schemas import read_schema
from sidecar.core.identifiers import TOOL_PREFIX, BlockId, ModelId, ToolId

TAGS: Final = ("<can_do>", "</can_do>", "<cannot_do>", "</cannot_do>")
"""The tags of a `capabilities` block. Each occurs exactly once, in this order."""
# Matches misspelt tags, too: a model reads them as text, so they would silently have no effect.
_LIKE_A_TAG: Final = re.compile(r"<\s*/?\s*can(?:not)?[_ -]?do\b[^>]*>?", re.IGNORECASE)
_FORM: Final = "<can_do>…</can_do>, then <cannot_do>…</cannot_do>"


def problems_with_capabilities(place: SourceLocation, text: str, category: BlockCategory) -> Iterator[Problem]:
    """Yield at most one error in the tags for what an agent can and cannot do. Source: PC1-D-33, PC1-D-34.

    Args:
        place: of the text.
        text: the block's instructions; another check reports an empty text.
        category: of the block.
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


MODEL_FIELDS: Final = (
    "id", "provider_model", "context_window", "parallel_tool_calls", "base_url", "price_per_million_input",
    "price_per_million_output",
)  # fmt: skip
TOOL_FIELDS: Final = (
    "id", "description", "arguments", "connector", "endpoint", "domain_type", "enricher_id", "version",
    "echoes_nonce", "payload_schema", "timeout", "operation", "max_response_bytes",
)  # fmt: skip
DATA_ONLY_FIELDS: Final = (
    "connector", "endpoint", "version", "echoes_nonce", "payload_schema", "timeout", "operation", "max_response_bytes",
)  # fmt: skip
"""Fields that only data-backed tools may have."""
LEAST_RESPONSE_BYTES: Final = 1024
BLOCK_FIELDS: Final = ("type", "name", "owner", "feature_gated", "instructions")

URL: Final = re.compile(r"https?://[^\s@/?#]+([/?#][^\s]*)?\Z")
URL_RULE: Final = "must be an http:// or https:// address without user name or blanks"
SEMVER: Final = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\Z")
ENDPOINT: Final = re.compile(r"[\x21-\x3f\x41-\x7e]{1,2000}\Z")
ENDPOINT_RULE: Final = "must be 1 to 2000 printable ASCII characters without blanks and without a user name (@)"
SCHEMES_OF: Final = {"rest": HTTP_SCHEMES, "grpc": GRPC_SCHEMES, None: (*HTTP_SCHEMES, *GRPC_SCHEMES)}
"""By connector. For a tool without a connector, the vertical's connector applies, which may be either one."""
SEMVER_RULE: Final = "must be major.minor.patch, such as 1.0.0"
PLACEHOLDER: Final = re.compile(r"\{\{?\s*(date|location|user_id|locale)\s*\}")
"""A dynamic value in braces, which an author may expect to be filled in."""


def read_model(place: SourceLocation, problems: list[Problem]) -> Entry[ModelEntry]:
    """Return the model at `place`; add its problems to `problems`."""
    fields = Fields(place, MODEL_FIELDS, problems)
    # `matching` and `whole` accept a missing field; `text` reports it as required.
    name = fields.matching("id", MODEL_KEY, MODEL_RULE) if fields.has("id") else fields.text("id")
    window = fields.whole("context_window", 1)
    if window is None and not fields.has("context_window"):
        fields.text("context_window")
    model = ModelEntry(
        id=ModelId(name or ""),
        provider_model=fields.text("provider_model"),
        context_window=window or 0,
        parallel_tool_calls=fields.flag("parallel_tool_calls", True),
        base_url=fields.address("base_url", URL, URL_RULE),
        price_per_million_input=fields.price("price_per_million_input"),
        price_per_million_output=fields.price("price_per_million_output"),
    )
    return Entry(model, place)


def read_tool(place: SourceLocation, problems: list[Problem]) -> Entry[ToolEntry]:
    """Return the tool at `place`; add its problems to `problems`."""
    fields = Fields(place, TOOL_FIELDS, problems)
    name = read_id(fields, "id")
    if name.startswith(TOOL_PREFIX):
        fields.note("id", f'{quoted(name)} begins with "{TOOL_PREFIX}", which is kept for sub-agents')
    tool = ToolEntry(
        id=ToolId(name),
        description=fields.text("description"),
        arguments=read_schema(fields, "arguments", of_object=True),
        connector=fields.matching("connector", WORD, WORD_RULE),
        endpoint=fields.address("endpoint", ENDPOINT, ENDPOINT_RULE),
        domain_type=optional_id(fields, "domain_type"),
        enricher_id=optional_id(fields, "enricher_id"),
        version=fields.matching("version", SEMVER, SEMVER_RULE) or "1.0.0",
        echoes_nonce=fields.flag("echoes_nonce", False),
        payload_schema=read_schema(fields, "payload_schema", of_object=False),
        timeout=fields.duration("timeout") or timedelta(seconds=10),
        operation=_operation(fields, problems),
        max_response_bytes=fields.whole("max_response_bytes", LEAST_RESPONSE_BYTES),
    )
    _check_backing(fields)
    _check_scheme(fields, tool)
    return Entry(tool, place)


def _operation(fields: Fields, problems: list[Problem]) -> ToolOperation:
    """Return the operation of a tool. A tool without a declaration is an effect, with a warning."""
    if fields.has("operation"):
        return fields.choice("operation", ToolOperation) or ToolOperation.EFFECT
    # Only tools of data services: a local tool runs inside the sub-agent, which the sidecar does not repeat by itself.
    if fields.has("domain_type"):
        text = (
            "declares no `operation`, hence each call is treated as an effect that nothing repeats: write "
            "`operation: read` if the service changes nothing, `idempotent` if a repetition is harmless"
        )
        problems.append(fields.place.warning(text, key="operation"))
    return ToolOperation.EFFECT


def _check_scheme(fields: Fields, tool: ToolEntry) -> None:
    """Check the address if the connector is built in. Other connectors check their addresses themselves."""
    schemes = SCHEMES_OF.get(tool.connector)
    if tool.endpoint and schemes is not None:
        example = "https://data.example/v1/enrich" if schemes[0] in HTTP_SCHEMES else "unix:/run/data.sock"
        problem = problem_with_scheme(tool.endpoint, schemes, example)
        if problem is not None:
            fields.note("endpoint", problem)


def _check_backing(fields: Fields) -> None:
    if fields.has("domain_type") and fields.has("enricher_id"):
        for key in ("endpoint", "payload_schema"):
            if not fields.has(key):
                fields.note(key, "is required for a tool that is backed by a data service")
        # `{}` accepts every value in JSON Schema. Here it would count as no schema, and all data would be withheld.
        if fields.place.at("payload_schema").value == {}:
            fields.note("payload_schema", "is empty; describe the payload, or nothing of it is ever released")
        return
    for key, other in (("domain_type", "enricher_id"), ("enricher_id", "domain_type")):
        if fields.has(key):
            # The other fields are not reported as meaningless: the author means a tool that is backed by data.
            fields.note(other, f"is required, since `{key}` is given")
            return
    for key in DATA_ONLY_FIELDS:
        if fields.has(key):
            fields.note(key, "has a meaning only together with `domain_type` and `enricher_id`")


def read_block(document: Document, problems: list[Problem]) -> Entry[PromptBlock]:
    """Return the prompt block in a file; add its problems to `problems`.

    Source: PC1-D-61, PC1-D-48, PC1-D-33, PC1-D-34.
    """
    fields = Fields(SourceLocation(document), BLOCK_FIELDS, problems)
    category = fields.choice("type", BlockCategory) or BlockCategory.CONTEXT
    block = PromptBlock(
        id=BlockId(read_id(fields, "name")),
        category=category,
        instructions=fields.text("instructions"),
        feature_gated=_gate(fields),
        owner=read_id(fields, "owner"),
        path=document.path,
    )
    text = block.instructions
    place = SourceLocation(document).at("instructions")
    problems.extend(problems_with_capabilities(place, text, category))
    in_braces = list(problems_with_placeholders(place, text, block.owner))
    problems.extend(in_braces)
    placeholder = PLACEHOLDER.search(text)
    # A word in double braces is an error already, with the same text.
    if placeholder is not None and not in_braces:
        note = f"{quoted(placeholder[0])} is not filled in: the {placeholder[1]} stands at the end of every prompt"
        problems.append(place.warning(note, key=placeholder[1]))
    return Entry(block, SourceLocation(document))


def _gate(fields: Fields) -> str | None:
    flag = fields.matching("feature_gated", FLAG, FLAG_RULE)
    if flag is not None and not flag.startswith(FLAG_PREFIX) and flag not in LEGACY_FLAGS:
        fields.note("feature_gated", f'{quoted(flag)} must begin with "{FLAG_PREFIX}"')
    return flag
