"""TLS from files, for both ends of every connection: read, checked, and followed when they change.

`files` names and follows the files. `servers` serves with them, `channels` connects with them, and `identities` says
which identities the certificate of a caller proves. This package imports nothing by itself: settings need no gRPC.
"""
