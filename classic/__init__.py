"""All that came before Kafka 0.11 as a product of its own: the logs, servers and clients of Kafka 0.7 and 0.8.

``producer``, ``consumer`` and ``streams`` are clients by the names of Kafka's design documents; they list what users
import, and work with any broker, Kafka's own or ours. ``log_0_7`` is the log of Kafka 0.7, ``gateway_0_7`` its server,
and ``upgrade`` makes a log of today of it. ``log_0_7`` and ``upgrade`` are made of the rooms of ``storage``; the others
import its public names, ``protocol``, ``registry`` and ``gateway``. Nothing below imports ``classic``.
"""
