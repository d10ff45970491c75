"""Mirrors: copy topics from one or several clusters into one target, another cluster or a log directory.

``settings`` reads what Kafka's tools call consumer.config and producer.config. ``sources`` and ``targets`` are what
these name. ``stream`` fetches in a thread, ``session`` writes what the streams of one source fetch, and ``run`` runs
one session per source. ``brokers`` asks brokers on today's protocol; ``tiers`` does so for the tier of a cluster.
"""
