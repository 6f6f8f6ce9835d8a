"""The agent card: fetched, bounded and checked before a word about a user is sent."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import httpx
from a2a.client.card_resolver import parse_agent_card
from a2a.types.a2a_pb2 import AgentCard, AgentInterface
from google.protobuf.json_format import ParseError

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.json_schemas import canonical_text
from sidecar.policy.protocols import RunnerError
from sidecar_runner_a2a.failures import error_of
from sidecar_runner_a2a.settings import Target

PATH: Final = "/.well-known/agent-card.json"
BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
"""What this runner speaks, in the order in which it prefers them."""
EXTENSION: Final = "urn:dispatch-sidecar:a2a:sub-agent:1"
"""What a sub-agent has and A2A has not; agents that do not know it are served all the same."""
OK: Final = 200


async def checked_card(client: httpx.AsyncClient, target: Target, *, has_token: bool) -> AgentCard:
    """Fetch the card of an agent and return what of it may be used: one interface.

    Raises:
        RunnerError: the card cannot be had, or does not pass; the text says what to do.
    """
    try:
        answer = await client.get(f"{target.url}{PATH}", headers={"accept": "application/json"})
    except httpx.HTTPError as error:
        raise error_of(error, target.url, heard=False) from None
    if answer.status_code != OK:
        raise RunnerError(f"no agent card at {target.url}{PATH}: HTTP {answer.status_code}; correct the target")
    try:
        content = from_json(answer.content, dict[str, Any])
        digest = digest_of(content)
        card = parse_agent_card(dict(content))
    except (DecodeError, ParseError, TypeError, ValueError, AttributeError):
        raise RunnerError(f"what is at {target.url}{PATH} is no agent card") from None
    if target.pin and digest != target.pin:
        raise RunnerError(
            f"the agent card of {target.url} has changed: expected {target.pin}, found {digest}; review it, then pin "
            f"the new one in the target, {target.url}#{digest}"
        )
    _check(card, target, has_token=has_token)
    return card


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of a card: SHA-256 over all its members as canonical JSON, signatures included."""
    return f"sha256:{sha256(canonical_text(content).encode(errors='surrogatepass')).hexdigest()}"


def _check(card: AgentCard, target: Target, *, has_token: bool) -> None:
    spoken = [each for each in card.supported_interfaces if _is_spoken(each)]
    if not spoken:
        offered = ", ".join(f"{i.protocol_binding} {i.protocol_version}" for i in card.supported_interfaces)
        raise RunnerError(
            f"the agent of {target.url} speaks {_printable(offered) or 'nothing'}; this runner speaks "
            f"{' and '.join(BINDINGS)}, 1.x"
        )
    own = [each for each in spoken if target.covers(each.url)]
    if not own:
        raise RunnerError(
            f"the agent card of {target.url} sends users' data to another origin: correct its interface, or make that "
            "origin the target"
        )
    unknown = [each.uri for each in card.capabilities.extensions if each.required and each.uri != EXTENSION]
    if unknown:
        raise RunnerError(f"the agent of {target.url} requires the extension {_printable(unknown[0])}, unknown here")
    if card.security_requirements and not (has_token and _takes_a_bearer(card)):
        raise RunnerError(
            f"the agent of {target.url} asks for credentials: give a bearer token in token_file; other kinds are not "
            "supported"
        )
    chosen = min(own, key=lambda each: BINDINGS.index(each.protocol_binding))
    del card.supported_interfaces[:]
    card.supported_interfaces.append(chosen)


def _is_spoken(interface: AgentInterface) -> bool:
    return interface.protocol_binding in BINDINGS and interface.protocol_version.partition(".")[0] == "1"


def _takes_a_bearer(card: AgentCard) -> bool:
    return any(
        all(_is_bearer(card, name) for name in requirement.schemes) for requirement in card.security_requirements
    )


def _is_bearer(card: AgentCard, name: str) -> bool:
    if name not in card.security_schemes:
        return False
    scheme = card.security_schemes[name]
    if scheme.HasField("http_auth_security_scheme"):
        return scheme.http_auth_security_scheme.scheme.lower() == "bearer"
    return scheme.HasField("oauth2_security_scheme") or scheme.HasField("open_id_connect_security_scheme")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:200])
