"""Producers of Kafka's protocol: our gateway beside a broker of Kafka 3.9.1, in turn.

``kafka-producer-perf-test`` with acks=all, its defaults (idempotent, batches of 16 KB) and tuned; then four clients of
librdkafka with 1 KB records, each for one of four partitions. Topics are synced before an answer, as ours are by
default, or not, as a broker's (``flush.messages``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from benchmarks import gateway_clients, gateway_tools
from benchmarks.comparison import Comparison, Setting
from benchmarks.gateway_turns import Side, cpu_row, in_turn, servers, time_row

LZ4 = {**gateway_tools.TUNED, "compression.type": "lz4"}
RECORDS = {100: 1_000_000, 1_000: 200_000}  # by their size
# Name, settings, what is required and the goal: unsynced and synced; None: not measured
TOOL = (
    ("default batches", {}, (1.0, 1.2), (0.8, 0.95)),
    ("tuned", gateway_tools.TUNED, None, (1.0, 1.3)),
    ("tuned, lz4", LZ4, None, (1.1, 1.3)),
)
CLIENTS = 4
CLIENT_RECORDS = 250_000  # of 1 KB, of all clients
# Size of batches; what is required and the goal: of the time, of CPU
CLIENT_BATCHES = {"16 KB": (16_384, (0.85, 1.0), (0.8, 0.6)), "256 KB": (262_144, (0.85, 1.0), (0.75, 0.6))}


def measure(setting: Setting) -> Iterator[Comparison]:
    with servers(setting.directory) as sides:
        for record_bytes in RECORDS:
            for name, settings, unsynced, synced in TOOL:
                yield from by_tool(setting, sides, record_bytes, name, settings, unsynced, synced)
        for name, (batch_bytes, time, cpu) in CLIENT_BATCHES.items():
            yield from by_clients(setting, sides, name, batch_bytes, time, cpu)


def by_tool(
    setting: Setting,
    sides: Mapping[str, Side],
    record_bytes: int,
    name: str,
    settings: Mapping[str, str],
    unsynced: tuple[float, float] | None,
    synced: tuple[float, float],
) -> Iterator[Comparison]:
    """Rows of ``kafka-producer-perf-test``."""
    records, size = setting.sized(RECORDS[record_bytes]), "100 B" if record_bytes == 100 else "1 KB"
    work = partial(gateway_tools.produce, records=records, record_bytes=record_bytes, settings=settings)
    wanted = {side: each for side, each in sides.items() if side != "unsynced" or unsynced}
    found = in_turn(wanted, work, setting.rounds, name=f"tool-{record_bytes}-{len(name)}")
    operation = f"producer-perf, {size}, {name}"
    for side, asked in (("unsynced", unsynced), ("synced", synced)):
        if asked is not None:
            yield time_row(f"{operation}, {side}", found[side], found["kafka"], *asked)
            yield cpu_row(f"{operation}, {side}", records * record_bytes, found[side], found["kafka"])


def by_clients(
    setting: Setting,
    sides: Mapping[str, Side],
    name: str,
    batch_bytes: int,
    time: tuple[float, float],
    cpu: tuple[float, float],
) -> Iterator[Comparison]:
    """Rows of four clients of librdkafka."""
    records = setting.sized(CLIENT_RECORDS) // CLIENTS
    work = partial(gateway_clients.produce, batch_bytes=batch_bytes, records=records, clients=CLIENTS)
    found = in_turn(sides, work, setting.rounds, name=f"clients-{batch_bytes}", partitions=CLIENTS)
    operation = f"{CLIENTS} producers, 1 KB, batches of {name}"
    for side in ("unsynced", "synced"):
        required = side == "unsynced"
        yield time_row(f"{operation}, {side}", found[side], found["kafka"], *(time if required else ()))
        size = records * CLIENTS * gateway_clients.VALUE_BYTES
        yield cpu_row(f"{operation}, {side}", size, found[side], found["kafka"], *(cpu if required else ()))
