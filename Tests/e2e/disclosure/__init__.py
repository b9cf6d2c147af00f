"""Who can learn what: callers, worlds that differ in what most of them may not read, and the operations that are tried."""
