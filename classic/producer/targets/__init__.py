"""The targets of a producer: a log directory, a cluster on today's wire, brokers on the wires of 0.8 and 0.7.

:func:`open_target` opens what the settings name. ``port`` is the interface of all targets.
"""
