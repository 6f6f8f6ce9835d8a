"""Where answers must be signed, the gateway withholds every other, whoever the answer says it is for."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from examples.ccs.faults import Fault, FaultKind
from examples.ccs.signing import Signer, signed_json
from sidecar.composition.plugins.from_settings import dispatch_rules
from sidecar.core.envelopes.signatures import SignatureRules
from sidecar.core.identifiers import Vertical
from sidecar.observability.redaction import Redactor
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, NarrationPart, RunFinished, RunnerEvent, RunRequest
from sidecar.settings import SettingsProblem, read_settings
from tests.support.data_tools import a_card_with_tools, a_tool, an_envelope
from tests.support.fake_runner import ScriptedRunner
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement

SIGNER = Signer("k1", b"k" * 32)
RULES = SignatureRules(keys={"k1": SIGNER.key}, verticals=("shop",))


@requirement("PC2-D-35", "PC2-D-34")
@pytest.mark.parametrize(
    ("fault", "released"), [(None, True), (FaultKind.UNSIGNED, False), (FaultKind.BAD_SIGNATURE, False)]
)
async def test_only_a_signed_answer_reaches_the_sub_agent(fault: FaultKind | None, released: bool) -> None:
    """Signed, unsigned, and altered after it was signed; all name the right user."""
    got: list[str | None] = []

    async def looks_up(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        got.append((await runner.call_tool(request.grant, "offers", "{}")).payload_json)
        yield NarrationPart("looked")
        yield RunFinished()

    def answer(call: EnricherCall) -> EnricherAnswer:
        plain = an_envelope(call, payload={"query": "coffee"})
        return replace(plain, body=signed_json(plain.body, SIGNER, None if fault is None else Fault(kind=fault)))

    cards = [a_card_with_tools("shop", "offers")]
    async with running_sidecar_for_tests(cards=cards, rules={"signatures": RULES}) as sidecar:
        sidecar.runner.use("shop", looks_up)
        sidecar.connector.reply = answer
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

    assert [text is not None for text in got] == [released]


def test_the_settings_say_whose_answers_and_name_files_that_hold_the_keys(tmp_path: Path) -> None:
    """A key of 32 bytes in a private file; one that is not there refuses the start."""
    key, file = tmp_path / "key", tmp_path / "sidecar.toml"
    key.write_bytes(SIGNER.key)
    key.chmod(0o400)
    least = (
        '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n[policy.verticals.rewards]\nconnector = "grpc"\n'
    )
    file.write_text(f'{least}[signatures]\nfiles = {{ k1 = "{key}" }}\nconnectors = ["grpc"]\n')

    rules = dispatch_rules(read_settings(file, {}), Redactor()).signatures

    checks = [rules.check_for(Vertical(name), a_tool("points")) for name in ("rewards", "shop")]
    assert [check is not None for check in checks] == [True, False]
    assert rules.is_genuine(b"text", SIGNER.signature(b"text").decode())
    file.write_text(f'{least}[signatures]\nfiles = {{ k1 = "{key}-gone" }}\nconnectors = ["grpc"]\n')
    with pytest.raises(SettingsProblem):
        dispatch_rules(read_settings(file, {}), Redactor())
    file.write_text(f'{least}[signatures]\nconnectors = ["grpc"]\n')
    with pytest.raises(SettingsProblem):
        read_settings(file, {})
