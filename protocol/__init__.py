"""Kafka's protocol: the bytes of requests and answers, for both ends of a connection. It knows no sockets.

``apis`` is the table of requests and versions. ``bodies`` reads and writes them with the library kio, which no other
module imports; ``old`` has the versions that kio lacks. Produce and Fetch carry all records, so for speed the gateway
reads and writes them without kio, by ``produce`` and ``fetch``. ``errors`` has Kafka's codes for the errors of
``storage``. The requests of Kafka 0.7 are ``classic/requests_0_7``.
"""
