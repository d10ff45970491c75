"""Spark's Python processes: imports before the fork, use of memory, the text of errors, and a quiet end."""
