"""Runner `grpc`: any host that serves `SubAgentRunnerService`."""
