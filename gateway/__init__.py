"""The gateway: a server that speaks Kafka's protocol over a log directory, while Spark writes and reads it too.

:class:`Gateway` is the server, :class:`GatewayConfig` its settings. Rooms: ``network/`` has the sockets and knows no
protocol; ``security/`` has logins and rules, ``quotas/`` how much clients may use; ``partitions/`` appends, syncs and
finds what others appended, ``tiers/`` reads what only a tier has; ``groups/`` coordinates consumers, with
``consumer_groups/`` those of Kafka 4, and ``transactions/`` transactional producers; ``cluster/`` knows the other
gateways; ``handlers/`` answer requests, and ``turns/`` small Produce requests together; ``threads/`` has threads with
timers, ``children/`` processes beside the server. Of ``storage`` it uses what ``storage/__init__.py`` exports. It needs
the extra ``[gateway]``. The server for clients of Kafka 0.7 is ``classic/gateway_0_7/``.
"""
