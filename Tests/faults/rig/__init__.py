"""What the faults are done to: PostgreSQL on a lossy disk, gateways, and proxies on both sides of each."""
