"""Groups and transactions over Kafka's protocol: our gateway beside a broker of Kafka 3.9.1, in turn.

Transactions of three records in three partitions, by producers of librdkafka; ours are synced. Groups: 1,000 members
that join 100 groups at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import gateway_clients
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.gateway_members import GROUPS, MEMBERS, join_all
from benchmarks.gateway_turns import AGAINST, in_turn, servers

PARTITIONS = 10
TRANSACTIONS = 1_000  # of all producers
PRODUCERS = {1: (0.3, 0.8), 50: (0.6, 0.8)}  # what is required, and the goal
JOINED_WITHIN = 2  # times Kafka's time


def measure(setting: Setting) -> Iterator[Comparison]:
    with servers(setting.directory) as sides:
        both = {side: sides[side] for side in ("kafka", "synced")}
        for producers, (asked, aim) in PRODUCERS.items():
            work = partial(
                gateway_clients.transact,
                partitions=PARTITIONS,
                transactions=-(-setting.sized(TRANSACTIONS) // producers),
                producers=producers,
            )
            found = in_turn(both, work, setting.rounds, name=f"transactions-{producers}", partitions=PARTITIONS)
            told = f"a transaction, {producers} producer{'s'[: producers - 1]}, synced"
            yield Comparison(told, AGAINST, found["synced"].seconds, found["kafka"].seconds, asked, aim)
        groups = setting.sized(GROUPS)
        found = in_turn(both, partial(join_all, groups=groups), setting.rounds, name="groups")
        told = f"{GROUPS} groups of {MEMBERS} members join at once"
        ours, theirs = found["synced"].seconds, found["kafka"].seconds
        yield Comparison(told, AGAINST, ours, theirs, JOINED_WITHIN, 1.0, Ratio.SLOWER)
