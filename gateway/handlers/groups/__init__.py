"""Requests about groups: from their members, for committed offsets, and from administrators.

Each function answers one kind of request; all of them run in the coordinator's thread. Which error code a request
gets is decided in ``gateway/groups`` and ``gateway/consumer_groups``.
"""
