"""Messages that are meant to do harm, and a watch over what they do. Standard library only: the benchmarks run them, too."""
