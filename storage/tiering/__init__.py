"""Writes tiers: copies closed segments of a log directory to one, lets a broker serve them, and brings them back.

:mod:`.contents` makes the objects of a segment, :mod:`.copying` is the job that copies and deletes,
:mod:`.publishing` gives a topic's segments to a broker's tier, and :mod:`.broker_directory` prepares the broker's
directory; :mod:`.restoring` brings topics back from a tier. :mod:`..tiers` has the layouts,
:mod:`..remote_metadata` the records.
"""
