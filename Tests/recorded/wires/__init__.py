"""Clients that hide nothing: each records every byte that it sends and gets."""
