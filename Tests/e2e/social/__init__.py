"""An invented social blog for the examples of the documentation."""
