"""A made-up social blog, as the documentation's examples have one."""
