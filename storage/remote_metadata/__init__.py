"""A log directory's own ``__remote_log_metadata``: the segments in a tier, and the state of each copy.

:class:`MetadataTopic` reads it, in a broker's directory too, and adds to it. May import ``directory`` and ``tiers``.
"""
