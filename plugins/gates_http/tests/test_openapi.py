"""The documented contract is valid, and both sides keep to it."""

from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest
import yaml
from openapi_spec_validator import validate

from examples.gates.server import Question, answer_to
from examples.gates.switches import Behaviour
from sidecar.policy.lifecycle import GateAnswer, GateQuestion
from sidecar_conformance.gate_client import QUESTION
from sidecar_gates_http.wire import body_of

DOCUMENT: Final[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "openapi.yaml").read_text("utf-8"))


def fits(name: str, value: object) -> bool:
    """Say whether a value fits one of the document's schemas, and holds nothing that it does not tell of."""
    schema = {**DOCUMENT["components"]["schemas"][name], "additionalProperties": False}
    text = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    text["components"] = {"schemas": {**DOCUMENT["components"]["schemas"], name: schema}}
    return bool(jsonschema_rs.validator_for(text).is_valid(value))


def test_the_document_is_openapi() -> None:
    """By the validator of the specification's own schema."""
    validate(DOCUMENT)


def test_the_client_sends_what_the_document_says() -> None:
    """Every field, and no other."""
    sent = msgspec.json.decode(body_of(QUESTION))

    assert fits("GateQuestion", sent)
    assert set(sent) == set(DOCUMENT["components"]["schemas"]["GateQuestion"]["required"])
    assert not fits("GateQuestion", {**sent, "to_ramp": 10_001})


@pytest.mark.parametrize("behaviour", list(Behaviour)[:4])
def test_the_reference_service_answers_what_the_document_says(behaviour: Behaviour) -> None:
    """All four verdicts."""
    question = msgspec.convert(msgspec.to_builtins(QUESTION), type=Question)
    answer = msgspec.json.decode(msgspec.json.encode(answer_to(question, behaviour)))

    assert fits("GateAnswer", answer)
    assert not fits("GateAnswer", {**answer, "verdict": "maybe"})


def test_the_document_knows_every_field_of_both_contracts() -> None:
    """A field that is added to the sidecar's contract has to be documented."""
    schemas = DOCUMENT["components"]["schemas"]

    assert set(schemas["GateQuestion"]["properties"]) == set(GateQuestion.__struct_fields__)
    assert set(schemas["GateAnswer"]["properties"]) == set(GateAnswer.__struct_fields__)
