"""What holds each block that is not simply read or parsed: the test that runs it, another reader, or why nothing can.

Keys are blocks, or pages whose every block the named test runs.
"""

import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.adapters.flags_file import flags_in_json, flags_in_toml
from sidecar.cli.validate.validate_refs import checks_settings
from subagents_client import StatusRenderer
from tests.documents.blocks import Block


@dataclass(frozen=True)
class RunBy:
    """A test that runs the block, or holds its page to what the program prints."""

    test: str


@dataclass(frozen=True)
class CannotRun:
    """Nothing runs it; says why."""

    why: str


@dataclass(frozen=True)
class ReadBy:
    """Another program reads it: raises, if it cannot."""

    read: Callable[[Block], object]


def _from_file(read: Callable[[Path], object]) -> ReadBy:
    def reading(block: Block) -> object:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file.toml"
            file.write_text(block.text, encoding="utf-8")
            return read(file)

    return ReadBy(reading)


HERE: Final = "tests/documents/test_python_samples.py"
OUTPUT: Final = "what a program printed once; names and times differ each time"
DRAWING: Final = "a drawing"

HELD: Final[Mapping[str, RunBy | ReadBy | CannotRun]] = {
    "README.md: from pathlib import Path": RunBy(f"{HERE}::test_the_first_sample_of_the_readme_runs_a_turn"),
    "README.md: import asyncio": RunBy(f"{HERE}::test_the_sub_agent_of_the_readme_answers"),
    "README.md: $ . .demo-venv/bin/activate    # `make demo` creat": RunBy(
        "tests/system/test_run_it.py::test_a_plain_user_runs_it_in_a_fresh_clone"
    ),
    "docs/webhooks.md: import base64": RunBy(
        "plugins/audit_webhook/tests/test_page.py::test_the_receiver_of_the_page_stores_each_event_once"
    ),
    'docs/webhooks.md: {"specversion": "1.0",': RunBy(
        "plugins/audit_webhook/tests/test_page.py::test_the_event_of_the_page_is_what_is_sent"
    ),
    "docs/bucketing.md: [": RunBy(
        "tests/unit/rollout/test_bucketing_page.py::test_the_vectors_of_the_page_are_those_that_each_start_checks"
    ),
    "docs/tls.md: mkdir -p tls/sidecar tls/agent": RunBy(
        "tests/system/tls/test_recipe.py::test_the_recipe_leads_to_a_bound_turn"
    ),
    "docs/tls.md: from pathlib import Path (2)": RunBy(
        "tests/system/tls/test_recipe.py::test_the_host_of_the_page_takes_the_certificates"
    ),
    "docs/tls.md: from pathlib import Path": RunBy(
        "tests/system/tls/test_recipe.py::test_the_recipe_leads_to_a_bound_turn"
    ),
    "docs/adapters.md": RunBy(
        "clients/openai_agents/tests/test_documentation.py"
        "::test_the_adapter_of_the_page_makes_parallel_tools_one_dispatch"
    ),
    "clients/openai_agents/README.md": RunBy(
        "clients/openai_agents/tests/test_agents.py::test_the_example_of_the_readme_runs"
    ),
    "clients/langchain/README.md: from langchain.chat_models import init_chat_model": RunBy(
        "clients/langchain/tests/test_documentation.py::test_every_example_imports_what_there_is"
    ),
    "clients/python/README.md": RunBy(
        "clients/python/tests/test_documentation.py::test_the_first_dispatch_of_the_readme_runs"
    ),
    "clients/typescript/README.md": RunBy(
        "clients/typescript/tests/test_typescript_client.py::test_the_sample_of_the_readme_compiles_and_runs"
    ),
    "docs/architecture.md: core  <-  policy  <-  operations  <-  { adapters,": CannotRun(
        "a drawing; tests/architecture/test_imports_flow_one_way.py holds what it says"
    ),
    'docs/audit.md: {"event": "subagent.lifecycle.transition",': CannotRun(
        "an event with its values left out; tests/unit/rollout/test_audit_events.py holds its fields"
    ),
    "docs/asking-back.md": RunBy("tests/rpc/test_asking_back_through_hosts.py::test_the_samples_of_the_page_run"),
    "docs/audit.md: sum by (vertical, trigger) (": CannotRun("a query of Prometheus, over metrics of a whole rollout"),
    "docs/data-services.md: {": RunBy("tests/adapters/connector_rest/test_docs.py::PAGE"),
    "docs/data-services.md: { (2)": RunBy("tests/adapters/connector_rest/test_docs.py::PAGE"),
    "docs/decommission.md: diff --git a/agent_config.yaml b/agent_config.yaml": RunBy(
        "tests/cli/test_decommission_page.py::PAGE"
    ),
    "docs/definitions.md: agent_config.yaml:30: agents.shop.tools[0]: unknow": RunBy(
        "tests/unit/definitions/test_documentation.py::PAGE"
    ),
    "docs/definitions.md: concierge: tokens of each call for its tools (an e": RunBy(
        "tests/cli/test_validate.py::test_the_page_shows_what_the_tools_of_the_example_cost"
    ),
    'docs/delegation.md: @host.sub_agent("shop")': RunBy(f"{HERE}::test_a_sub_agent_delegates_as_shown"),
    "docs/driving-by-hand.md": RunBy("tests/rpc/test_driving_by_hand.py::halves"),
    "docs/evaluating-routing.md: version: 1": RunBy(
        "clients/evals/tests/test_documentation.py::test_the_case_of_the_page_can_be_read_with_the_example_suite"
    ),
    "docs/first-sub-agent.md": RunBy(
        "tests/system/test_first_sub_agent.py::test_the_page_has_the_commands_of_the_written_readme"
    ),
    "docs/history.md: turn = await client.bind_turn(TurnRequest(episode_": RunBy(
        f"{HERE}::test_history_is_read_and_compacted_as_shown"
    ),
    "docs/history.md: if turn.surface.compaction_due is CompactionDue.DU": RunBy(
        f"{HERE}::test_history_is_read_and_compacted_as_shown"
    ),
    "docs/history.md: earlier = await run.read_own_turns()  # asked, ans": RunBy(
        f"{HERE}::test_a_sub_agent_reads_its_own_turns_as_shown"
    ),
    "docs/history.md: stripped = strip_components(text)  # narration, co": RunBy(
        f"{HERE}::test_components_are_stripped_as_shown"
    ),
    "docs/langchain-runner.md: from langchain.chat_models import init_chat_model": RunBy(
        f"{HERE}::test_a_function_of_ones_own_asks_a_model_with_the_prompt_of_the_card"
    ),
    "docs/langchain-runner.md: def graphs():": RunBy(f"{HERE}::test_a_graph_of_the_runner_page_reports_and_answers"),
    "docs/langchain-runner.md: from sidecar_runner_langchain import AgentRuntime,": RunBy(
        f"{HERE}::test_the_runtime_is_served_as_shown"
    ),
    "docs/langchain.md": RunBy(
        "clients/langchain/tests/test_documentation.py::test_a_turn_is_carried_out_and_shown_as_the_page_says"
    ),
    "docs/lifecycle-policies.md: from sidecar.policy.lifecycle import PolicyAnswer,": RunBy(
        f"{HERE}::test_the_policy_of_the_page_denies_on_fridays"
    ),
    "docs/lifecycle.md: dev ──▶ test ──▶ promote ──▶ rollback": CannotRun(DRAWING),
    "docs/load-testing.md: # A scenario for `subagents-loadgen --file`; docs/": RunBy(
        "clients/loadgen/tests/test_documentation.py::test_the_scenario_of_the_page_runs"
    ),
    "docs/load-testing.md: from subagents_loadgen.locust_user import user_of": RunBy(
        "clients/loadgen/tests/test_scenarios.py::test_locust_runs_the_same_scenario"
    ),
    "docs/load-testing.md: latency in ms               count        p50": CannotRun(OUTPUT),
    'docs/plugins.md: {"flags": {"ai_assistant_subagent_shop": true, "ai': ReadBy(
        lambda block: flags_in_json(block.text)
    ),
    "docs/plugins.md: [flags]": ReadBy(lambda block: flags_in_toml(block.text)),
    "docs/plugins.md: [plugins] (2)": ReadBy(lambda block: tomllib.loads(block.text)),
    "docs/postgresql.md": RunBy("tests/adapters/records/test_postgresql_surroundings.py::DOCUMENTATION"),
    "docs/replay.md: turn turn-17: 3 calls replayed: DIFFERS": CannotRun(OUTPUT),
    "docs/runner-hosts.md: from subagents_client.runner import Answer, DataUn": RunBy(
        "clients/python/tests/test_documentation.py::test_the_hosts_of_the_documentation_run"
    ),
    "docs/scores.md: from subagents_client import Score, ScoreSource": RunBy(
        f"{HERE}::test_the_feedback_of_a_user_is_recorded_as_shown"
    ),
    "docs/sdk.md: from subagents_client import BoundTurn, CallStateC": RunBy(
        "clients/python/tests/test_documentation.py::test_a_dispatch_is_watched_as_the_page_shows"
    ),
    "docs/sdk.md: [de]": _from_file(StatusRenderer.from_toml),
    "docs/seeing-turns.md: page = await client.history.list_turns(TurnFilter(": RunBy(
        f"{HERE}::test_the_record_is_read_as_shown"
    ),
    "docs/subagent-cli.md: $ . .demo-venv/bin/activate": RunBy(
        "tests/system/test_try_a_rollout.py::test_a_sub_agent_goes_from_nothing_to_a_ramp_as_documented"
    ),
    "docs/subagent-cli.md: {": CannotRun("one answer of many; tests/cli/test_subagent_json.py holds its fields"),
    "docs/validate-refs.md: Major Agent Definition changes require a new `agen": CannotRun(
        "the message of one check; tests/cli/test_validate_refs.py holds it word for word"
    ),
    'docs/validate-refs.md: rollout_export = "rollouts.json"  # from the folde': _from_file(checks_settings),
    "docs/validate-refs.md: set -eu": RunBy("tests/cli/test_validate_refs_workflow.py::publishing"),
    "plugins/connector_mcp/README.md: from mcp.server.mcpserver import Context, MCPServe": RunBy(
        "plugins/connector_mcp/tests/test_readme.py::test_the_asking_tool_of_the_readme_asks_the_user_of_the_call"
    ),
    "plugins/connector_mcp/README.md: import json": RunBy(
        "plugins/connector_mcp/tests/test_readme.py::test_the_server_of_the_readme_writes_envelopes"
    ),
    "plugins/runner_a2a/README.md: import base64": RunBy(
        "plugins/runner_a2a/tests/test_readme.py::test_the_readme_verifies_a_signed_identity"
    ),
    'plugins/README.md: """The flag backend `directory`: each empty file i': RunBy(
        "tests/plugins/test_written_example.py::README"
    ),
    "plugins/README.md: [build-system]": ReadBy(lambda block: tomllib.loads(block.text)),
    'plugins/README.md: """The flag backend `directory` passes the suite t': RunBy(
        "tests/plugins/test_written_example.py::README"
    ),
    "plugins/README.md: [plugins]": RunBy("tests/plugins/test_written_example.py::test_every_settings_example_is_toml"),
}
