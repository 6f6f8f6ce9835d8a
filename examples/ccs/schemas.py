"""JSON schemas of the payloads, by `(domain_type, enricher_id)`: the typing registry, which the data service owns.

`examples/config/agent_config.yaml` repeats them in its tool entries; a test holds the two together.
"""

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string", "maxLength": 2000}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
DAY: Final[Schema] = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}


def _object(properties: Schema) -> Schema:
    """Return the schema of an object that has exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


OFFER: Final = _object(
    {
        "offer_id": TEXT,
        "title": TEXT,
        "merchant": TEXT,
        "points": COUNT,
        "expires_on": DAY,
    }
)

OFFER_SEARCH: Final = _object(
    {
        "query": TEXT,
        "offers": {"type": "array", "items": OFFER, "maxItems": 50},
    }
)

ACTIVITY: Final = _object(
    {
        "date": DAY,
        "description": TEXT,
        "points": {"type": "integer"},
    }
)

POINTS_BALANCE: Final = _object(
    {
        "balance": COUNT,
        "pending": COUNT,
        "tier": {"type": "string", "enum": ["bronze", "silver", "gold"]},
        "recent_activity": {"type": "array", "items": ACTIVITY, "maxItems": 50},
    }
)

ORDER: Final = _object(
    {
        "order_id": TEXT,
        "item": TEXT,
        "status": {"type": "string", "enum": ["processing", "shipped", "delivered", "returned"]},
        "eta": {"anyOf": [DAY, {"type": "null"}]},
    }
)

ORDER_STATUS: Final = _object({"orders": {"type": "array", "items": ORDER, "maxItems": 50}})

PAYLOAD_SCHEMAS: Final[dict[tuple[str, str], Schema]] = {
    ("offers", "offer_search"): OFFER_SEARCH,
    ("rewards", "points_balance"): POINTS_BALANCE,
    ("orders", "order_status"): ORDER_STATUS,
}

VERSIONS: Final[dict[tuple[str, str], str]] = {
    ("offers", "offer_search"): "1.4.0",
    ("rewards", "points_balance"): "1.2.0",
    ("orders", "order_status"): "1.0.2",
}
"""What the service serves; the consumer's tool entries name any version with the same major part."""
