"""Harmful messages, and a watch over their effects. Standard library only: the benchmarks run them, too."""
