"""The protocol of Kafka 0.7 on a port of its own, over a log directory of 0.7.

:class:`PositionGateway` is the server, :class:`PositionGatewayConfig` its settings. ``answers`` carries out requests,
``registrations`` enters the broker in ZooKeeper. Of the rooms of ``gateway`` it uses ``network``, ``cluster`` and
``threads``. It needs no extra.
"""
