"""What the benchmarks share: processes, a gateway, load generators, data, the report."""
