"""Which identities a caller's certificate proves: a SPIFFE id, or else DNS names. The common name proves nothing."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

SPIFFE: Final = re.compile(r"spiffe://[a-z0-9._-]{1,255}(/[A-Za-z0-9._-]+)+", re.ASCII)
DNS_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*", re.ASCII)
"""Lower-case. No wildcard: it would prove names that nobody has written down."""

Identity = str
AuthContext = Mapping[str, Iterable[bytes]]


def identities_of(auth: AuthContext) -> tuple[Identity, ...]:
    """Return the identities in gRPC's `auth_context()`; none: the certificate proves no identity that counts.

    A certificate with a URI has exactly one identity, its SPIFFE id, as the SPIFFE standard says. With several URIs, or
    with one of another scheme, it has none. DNS names count only where there is no URI. A DNS name that looks like a
    SPIFFE id is neither: an authority that signs any DNS name must not be able to make SPIFFE ids.
    """
    if any(True for _ in auth.get("peer_uri", ())):
        found = [each.decode("ascii", "replace") for each in auth.get("peer_spiffe_id", ())]
        return tuple(found) if len(found) == 1 and SPIFFE.fullmatch(found[0]) else ()
    names = (each.decode("ascii", "replace").lower() for each in auth.get("peer_dns", ()))
    return tuple(each for each in names if DNS_NAME.fullmatch(each))


def problem_with_identity(identity: Identity) -> str | None:
    """Return why a text in a table of identities can never match, or None."""
    if SPIFFE.fullmatch(identity) or DNS_NAME.fullmatch(identity):
        return None
    return (
        f"{identity[:80]!r} is neither a SPIFFE id such as spiffe://example.org/ns/shop/sa/host nor a DNS name in "
        "small letters; wildcards and common names do not count"
    )
