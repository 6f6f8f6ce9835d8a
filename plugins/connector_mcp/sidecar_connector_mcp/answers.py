"""Translates results of `tools/call` into replies for the gateway. The envelope remains unopened text."""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.core.decoding import DecodeError, from_base64url, from_json
from sidecar.core.faults import Fault
from sidecar.policy.protocols import EnricherAnswer, EnricherAsks, EnricherRefused, EnricherReply, RefusalKind
from sidecar_connector_mcp.questions import required_by

REFUSALS: Final[Mapping[str, RefusalKind]] = {
    "missing_principal": RefusalKind.MISSING_PRINCIPAL,
    "principal_mismatch": RefusalKind.PRINCIPAL_MISMATCH,
}
"""Code in a tool's error to the refusal that it means. Source: PC2-D-32, PC2-D-33."""
LONGEST_REFUSAL: Final = 1024
ERROR_REMEDY: Final = "the tool reported an error of its own: see the server's log"
INPUT_REMEDY: Final = (
    "the tool asks for input: have it answer from the arguments alone, or let it ask the user with one elicitation "
    "(`questions = true` in [connectors.mcp.servers])"
)
LONGEST_QUESTION: Final = 4096
LARGEST_PART: Final = 16 * 1024


def asking(required: EnricherAsks | None, place: str) -> EnricherReply:
    """Return a server's question, or a refusal if the question is absent, empty or too long."""
    if required is None or not required.asked.text.strip() or len(required.asked.text) > LONGEST_QUESTION:
        return EnricherRefused(RefusalKind.UNAVAILABLE, Fault(place, place, "input required", INPUT_REMEDY))
    if max(len(required.asked.about_json.encode()), len(required.asked.state)) > LARGEST_PART:
        return EnricherRefused(RefusalKind.TOO_LARGE)
    return required


def reply_of(result: Mapping[str, Any], place: str, max_body_bytes: int, *, questions: bool = False) -> EnricherReply:
    """Return the envelope in a result, the server's question, or the reason why there is neither.

    The envelope is the only content block of the result: a text or an embedded resource. `structuredContent` is
    ignored: the SDK has already parsed it, which hides duplicate members.
    """
    if result.get("resultType", "complete") != "complete":
        return asking(required_by(result, place) if questions else None, place)
    body = _body_of(result.get("content"))
    if result.get("isError"):
        return _refusal(body, place)
    if body is None:
        return EnricherRefused(RefusalKind.MALFORMED)
    return EnricherAnswer(body) if len(body) <= max_body_bytes else EnricherRefused(RefusalKind.TOO_LARGE)


def _refusal(body: bytes | None, place: str) -> EnricherReply:
    if body is not None and len(body) <= LONGEST_REFUSAL:
        try:
            said = from_json(body)
        except DecodeError:
            said = None
        if isinstance(said, Mapping) and isinstance(code := said.get("code"), str) and code in REFUSALS:
            return EnricherRefused(REFUSALS[code])
    return EnricherRefused(RefusalKind.UNAVAILABLE, Fault(place, place, "tool error", ERROR_REMEDY))


def _body_of(content: Any) -> bytes | None:
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], Mapping):
        return None
    try:
        match content[0]:
            case {"type": "text", "text": str() as text} | {"type": "resource", "resource": {"text": str() as text}}:
                return text.encode()
            case {"type": "resource", "resource": {"blob": str() as blob}}:
                return from_base64url(blob.translate(_URL_SAFE).rstrip("="))
            case _:
                return None
    except ValueError:  # half a surrogate pair, or invalid base64
        return None


_URL_SAFE: Final = str.maketrans("+/", "-_")
