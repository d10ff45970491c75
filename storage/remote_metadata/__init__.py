"""A log directory's own ``__remote_log_metadata``: which of its segments are in a tier, and how far each copy has come.

:class:`MetadataTopic` reads it, in a broker's directory too, and adds to it. May import ``directory`` and ``tiers``.
"""
