"""The shared parts of the benchmarks: processes, a gateway, load generators, data, the report."""
