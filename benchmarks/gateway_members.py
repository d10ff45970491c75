"""Many members that join their groups at once, as a client does it, over connections of their own.

A member joins, gets its id, joins again, and syncs; the leader gives the number of members as everybody's assignment.
A member is ready once its group has all of its members. Until then it sends heartbeats, and joins again when told so.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from typing import Any

from pyspark_commitlog.protocol.bodies import read_answer, write_request
from pyspark_commitlog.protocol.headers import request_header

GROUPS, MEMBERS = 100, 10
HEARTBEAT_S = 0.1
TIMEOUT_S = 120
CORRELATION_BYTES = 4
JOIN, HEARTBEAT, FIND, SYNC = (11, 5), (12, 3), (10, 2), (14, 3)  # kinds of requests, in versions before flexible ones
OK, REBALANCING, ID_REQUIRED = 0, 27, 79
NOT_READY = (14, 15, 16)  # the coordinator loads, or is not there yet


def join_all(bootstrap: str, prefix: str, groups: int = GROUPS, members: int = MEMBERS) -> float:
    """Seconds from the first join until all members of all groups are ready."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_join_all, (bootstrap, prefix, groups, members))


def _join_all(bootstrap: str, prefix: str, groups: int, members: int) -> float:
    return asyncio.run(asyncio.wait_for(_all(bootstrap, prefix, groups, members), TIMEOUT_S))


async def _all(bootstrap: str, prefix: str, groups: int, members: int) -> float:
    names = [f"{prefix}-{number}" for number in range(groups)]
    connections = [await Connection.to(bootstrap) for _ in range(groups * members)]
    for name in names:
        await connections[0].find(name)
    began_s = time.perf_counter()
    await asyncio.gather(*(_member(each, names[number // members], members) for number, each in enumerate(connections)))
    seconds = time.perf_counter() - began_s
    for each in connections:
        each.close()
    return seconds


async def _member(connection: Connection, group: str, members: int) -> None:
    member_id = ""
    while True:
        joined = await connection.join(group, member_id)
        member_id = joined.member_id
        if joined.error_code == ID_REQUIRED:
            continue
        _check(joined.error_code, OK)
        mine = {"group_id": group, "generation_id": joined.generation_id, "member_id": member_id}
        each = str(len(joined.members)).encode()
        assignments = [{"member_id": one.member_id, "assignment": each} for one in joined.members]
        synced = await connection.ask(SYNC, **mine, group_instance_id=None, assignments=assignments)
        _check(synced.error_code, OK, REBALANCING)
        if synced.error_code == OK and synced.assignment == str(members).encode():
            return
        error = synced.error_code
        while error != REBALANCING:
            await asyncio.sleep(HEARTBEAT_S)
            error = (await connection.ask(HEARTBEAT, **mine, group_instance_id=None)).error_code
            _check(error, OK, REBALANCING)


class Connection:
    """A connection that waits for each answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, bootstrap: str) -> Connection:
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def find(self, group: str) -> None:
        """Wait until the coordinator of a group is there."""
        while True:
            found = (await self.ask(FIND, key=group, key_type=0)).error_code
            if found == OK:
                return
            _check(found, *NOT_READY)
            await asyncio.sleep(HEARTBEAT_S)

    async def join(self, group: str, member_id: str) -> Any:
        """Join, once the coordinator has loaded the group."""
        fields = {"group_id": group, "member_id": member_id, "group_instance_id": None, "protocol_type": "consumer"}
        times = {"session_timeout": 60_000, "rebalance_timeout": 60_000}
        protocols = [{"name": "range", "metadata": b""}]
        while True:
            joined = await self.ask(JOIN, **fields, **times, protocols=protocols)
            if joined.error_code not in NOT_READY:
                return joined
            await asyncio.sleep(HEARTBEAT_S)

    async def ask(self, kind: tuple[int, int], **fields: Any) -> Any:
        body = request_header(*kind, 1, "benchmark") + write_request(*kind, fields)
        self._writer.write(len(body).to_bytes(4, "big") + body)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        return read_answer(*kind, frame, CORRELATION_BYTES)

    def close(self) -> None:
        self._writer.close()


def _check(error: int, *allowed: int) -> None:
    if error not in allowed:
        raise RuntimeError(f"a group answered with error {error}")
