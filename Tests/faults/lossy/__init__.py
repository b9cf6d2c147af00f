"""A disk that may lose data without an fsync: the library around PostgreSQL's file calls, and the power cut."""
