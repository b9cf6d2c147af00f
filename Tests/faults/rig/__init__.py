"""The targets of the faults: PostgreSQL on a lossy disk, gateways, and proxies on both sides of each."""
