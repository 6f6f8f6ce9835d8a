"""Power cuts of the live process: a library that logs what it writes, and the disk as a cut would have left it."""
