"""What `make bench` measures with: servers and load generator in processes of their own, rounds interleaved."""

import os

# Set before gRPC is loaded: the bench forks only to start its servers, and gRPC would remark on every one of them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
