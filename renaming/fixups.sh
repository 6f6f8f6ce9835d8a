# run in the tree after rename.py
sed -i 's/return Refused(fact/return FactRejected(fact/' tests/unit/journal/test_rules_and_today.py
sed -i 's/Return the head of a turn whose claims are on record. Raises `JournalCorrupt` if they are not, and do not come now\./Return the head of a turn whose claims are on record, or come now. Raises `JournalCorrupt` otherwise./' sidecar/core/journal/transitions.py
sed -i 's/core\.envelopes\.outside/core.envelopes.fields/; s/core\.envelopes\.wire\b/core.envelopes.proto_scan/g' docs/mutation-report.md
sed -i 's/Return what `message_to_json` made of such a message as the JSON form of protobuf has it; that form stays as it is\./Return the JSON form of protobuf for what `message_to_json` made; text in that form stays as it is./' sidecar/cli/subagent/output/json_output.py
sed -i 's/Components are tool messages of their own, keyed by `turn_id`; what a model is "/Components are tool messages of their own, keyed by `turn_id`; a model is "/; s/"given has narration and references, no payload\. What the classifier/"given narration and references, no payload. What the classifier/' scripts/evidence.py
