"""The benchmarks, one a file: each has `NAME` and `run(context)`."""
