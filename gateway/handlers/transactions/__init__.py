"""Requests about transactions, from producers and from administrators.

Each function answers one kind of request; most run in the coordinator's thread.
"""
