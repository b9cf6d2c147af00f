"""The expected answers: a slow, plain model of the tree, its order, its queries and its hashes."""
