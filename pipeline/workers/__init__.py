"""Spark's Python processes: what they load before they fork, and how they use memory."""
