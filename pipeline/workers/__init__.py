"""Spark's Python processes: what they import before they fork, how they use memory, what of an error they show, and
how they end."""
