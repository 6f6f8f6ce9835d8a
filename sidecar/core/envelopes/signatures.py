"""Verifies that a data service with a shared key signed a response.

`v1:<key id>:<hex>` is an HMAC-SHA256 in 64 lower-case hexadecimal digits. It covers the response's own bytes without
the signature (`fields`: a JSON body has the empty string in its place, a message lacks the field). Nothing is parsed
and re-encoded before, so any altered byte is detected. Source: PC2-D-35, DESIGN section 6.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.core.envelopes.verdicts import SignatureCheck
from sidecar.core.identifiers import Vertical

VERSION: Final = "v1"
NO_KEYS: Final[Mapping[str, bytes]] = MappingProxyType({})
NO_CONNECTORS: Final[Mapping[Vertical, str]] = MappingProxyType({})


@dataclass(slots=True)
class SignatureRules:
    """The services that must sign their responses, and the keys. Only the keys can be replaced.

    Attributes:
        keys: by id; a signature with any of them is valid, so that keys can be rotated.
        connectors, verticals, tools: names; an unsigned response to a tool of any of them is withheld.
        connector_of: the connector of each vertical that has its own, for tools that name no connector.
        default_connector: the connector of all other verticals.
    """

    keys: Mapping[str, bytes] = field(default_factory=lambda: NO_KEYS, repr=False)
    connectors: tuple[str, ...] = ()
    verticals: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    connector_of: Mapping[Vertical, str] = field(default_factory=lambda: NO_CONNECTORS)
    default_connector: str = ""

    def check_for(self, vertical: Vertical, tool: ToolEntry) -> SignatureCheck | None:
        """Return the check for a response to `tool`, called by an agent of `vertical`; None: it need not be signed."""
        connector = tool.connector or self.connector_of.get(vertical, self.default_connector)
        wanted = connector in self.connectors or vertical in self.verticals or tool.id in self.tools
        return self.is_genuine if wanted else None

    def adopt(self, keys: Mapping[str, bytes]) -> None:
        """Verify with other keys from the next response on."""
        self.keys = keys

    def is_genuine(self, signed: bytes, signature: str | None) -> bool:
        """Return whether `signature` fits `signed` under the key that it names."""
        if signature is None:
            return False
        # The signature names its key, so that services and sidecars can change keys one after the other.
        version, _, rest = signature.partition(":")
        key_id, _, _ = rest.partition(":")
        key = self.keys.get(key_id)
        if version != VERSION or key is None:
            return False
        # In constant time, and as bytes: `compare_digest` refuses texts with characters beyond ASCII, which a service
        # may send.
        return hmac.compare_digest(signature_of(signed, key_id, key).encode(), signature.encode())


def signature_of(signed: bytes, key_id: str, key: bytes) -> str:
    """Return the signature of `signed`."""
    return f"{VERSION}:{key_id}:{hmac.new(key, signed, sha256).hexdigest()}"
