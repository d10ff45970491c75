"""Limits of clients: their connections, the memory of their requests, how fast those arrive, and how many are served.

Each counts for all threads. ``clients`` has them together, and the terms of a listener.
"""
