"""An independent stand-in for Google's Realtime Database, a hostile proxy, and random writes: what a follower follows in the tests.

Nothing in this package comes from Pathmirror's sources. Its only basis is the description of the protocol.
"""
