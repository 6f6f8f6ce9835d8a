"""Role tokens of an OIDC issuer: its keys, fetched in the background, and the checks of its tokens."""

from sidecar.adapters.oidc_issuer.key_source import KeySource, fetching
from sidecar.adapters.oidc_issuer.keys import IssuerKeys, KeysUnusable, keys_of
from sidecar.adapters.oidc_issuer.tokens import IssuerTokens

__all__ = ["IssuerKeys", "IssuerTokens", "KeySource", "KeysUnusable", "fetching", "keys_of"]
