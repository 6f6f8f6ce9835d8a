"""How connector `rest` is registered and made."""

import jsonschema_rs
import pytest

from sidecar.adapters.connector_rest.plugin import rest_connector, sidecar_connectors
from sidecar.policy.protocols import EnricherAnswer
from sidecar.settings.kinds import InvalidValues
from subagents_tls.files import TlsFilesProblem
from tests.adapters.connector_rest.calling import call
from tests.adapters.connector_rest.raw_http import http_reply, raw_server


async def test_the_registered_factory_makes_a_working_connector() -> None:
    """The descriptor's name, contract and factory, with no settings at all."""
    (spec,) = sidecar_connectors()
    assert (spec.name, spec.contract) == ("rest", "connector/1")

    connector = spec.factory({})
    async with raw_server(http_reply(b"{}")) as server:
        assert await connector.enrich(call(server.address)) == EnricherAnswer(b"{}")
    await connector.close()


@pytest.mark.parametrize("settings", [{"retries": 3}, {"max_connections": 0}, {"idle_seconds": "long"}])
def test_settings_that_do_not_exist_or_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    """The declared schema and the factory agree: both refuse."""
    (spec,) = sidecar_connectors()

    assert not jsonschema_rs.is_valid(dict(spec.config_schema), settings)
    with pytest.raises(InvalidValues):
        rest_connector(settings)


def test_an_authority_file_that_is_missing_stops_the_start() -> None:
    """`ca_file` is read when the connector is made, not at the first call."""
    with pytest.raises(TlsFilesProblem, match="No such file"):
        rest_connector({"ca_file": "/nowhere/ca.pem"})
