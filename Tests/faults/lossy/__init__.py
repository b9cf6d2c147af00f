"""A disk that may forget what was not fsynced: the library around PostgreSQL's file calls, and the cut of the power."""
