"""Mirrors: copy topics from one or several clusters into one target, another cluster or a log directory.

``settings`` reads what Kafka's tools call consumer.config and producer.config. ``targets`` is the interface to what a
producer.config names; what a consumer.config names is in ``clients.sources``. ``stream`` fetches in a thread,
``session`` writes what the streams of one source fetch, and ``run`` runs one session per source.
"""
