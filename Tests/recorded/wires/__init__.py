"""Clients that hide nothing: each writes down every byte that it sends and gets."""
