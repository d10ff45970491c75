"""Requests about transactions: what producers send, and what administrators ask.

Each function answers one kind of request; most run in the coordinator's thread.
"""
