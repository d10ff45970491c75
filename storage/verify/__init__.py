"""Verifies logs: checks every checksum, record, offset, index entry, marker, snapshot and checkpoint.

:func:`verify_log` checks a partition. To check its segments in several processes, :func:`plan_verification` lists them,
:func:`verify_segment` checks one, in any process and order, and :func:`join` combines the results.

Verification changes nothing and takes no lock. Damage does not end it: it continues at the next sound batch. While a
writer appends, unfinished writes are not damage: only bytes that were synced, or that precede a sound batch, can be.
"""
