"""The RPC layer in virtual time: its handlers over a wire that is made up, and clients that speak protobuf."""
