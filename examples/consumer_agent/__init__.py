"""An example consumer-agent on the SDK: the service whose model talks to the user.

`agent` carries one turn from the user's words to the answer, `model` says what it needs of a model, `rule_based` is a
small offline stand-in for one, `history` keeps the messages the way model providers demand.

The same on LangChain, for who has it installed: `langchain_agent` with the reference orchestrator on `create_agent`,
`langchain_model` with the stand-in as a LangChain chat model.
"""
