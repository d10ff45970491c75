"""A log on an object store that is set back, or made again, while its gateway runs.

Nothing may be acknowledged by that gateway, nor written, from then on. When it starts again, all go on with what is
there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.stores.port import ObjectStore
from tests.gateway.test_bucket_replaced import begin_transactions, commit_offset, create_topic, delete_records
from tests.support.gateway import WireClient, produce_fields
from tests.support.logs.building import batch, now_ms
from tests.support.transactions import WireProducer
from tests.torture.gateway.clients import PLAIN, Client, Told
from tests.torture.gateway.foes.world import World, at_work
from tests.torture.suite import Run

FOLDERS = ("commits", "checkpoints", "staged", "segments")
LOST_COMMITS = (1, 2, 5)
ANSWER_S = 300.0  # at most, to a request that needs a commit
WAITS_S = 3.0  # while clients try to write through the old gateway


def set_back(world: World, chance: Random, run: Run) -> None:
    """Changes the log under its gateway while nobody writes, and lets clients go on before and after a restart."""
    store = open_root(world.place).store
    with WireClient(world.server) as client:
        client.socket.settimeout(ANSWER_S)
        owner = WireProducer(client, "open")
        assert not owner.init().error
        assert owner.add(PLAIN) == owner.produce(PLAIN, b"open 0") == 0
        change = chance.choice((lose_commits, make_again))
        run.note(change.__name__.replace("_", " "))
        change(world, store, chance)
        world.told, world.seen = Told(), []
        with at_work(world.writing_again(chance), world.told) as writing:
            check_refused(world, store, client, owner)
            world.server.kill()
            world.server.start()
            go_on(world, writing, run)


def check_refused(world: World, store: ObjectStore, client: WireClient, owner: WireProducer) -> None:
    """Nothing is acknowledged, nor written, though clients try."""
    before = commits(store)
    ask_all(client, owner)
    time.sleep(WAITS_S)
    assert not any(world.told.acknowledged.values()), "records were acknowledged into a log that was set back"
    assert not world.told.committed, "a transaction was committed into a log that was set back"
    assert commits(store) == before, "a gateway has written into a log that was set back"


def go_on(world: World, writing: list[Client], run: Run) -> None:
    """After the gateway's start, with what is there then."""
    with WireClient(world.server) as client:
        while WireProducer(client, "open").init().error:  # ends what may be left of it
            time.sleep(0.2)
    with at_work(world.reading(), world.told) as reading:
        world.await_progress()
        run.note("records acknowledged", world.end(writing, reading))
    world.told.note(run)


def lose_commits(_: World, store: ObjectStore, chance: Random) -> None:
    store.delete([*commits(store)][-chance.choice(LOST_COMMITS) :])


def make_again(world: World, store: ObjectStore, _: Random) -> None:
    store.delete(["commitlog.json", *(facts.key for folder in FOLDERS for facts in store.list(folder))])
    open_root(world.place, create=True, check=lambda _: [])
    world.make_topics()


def commits(store: ObjectStore) -> Mapping[str, int]:
    """The commits, in order, with their sizes."""
    return dict(sorted((facts.key, facts.size) for facts in store.list("commits")))


def ask_all(client: WireClient, owner: WireProducer) -> None:
    """Asks for what needs a commit."""
    asks: list[Callable[[WireClient], int]] = [
        write,
        commit_offset,
        create_topic,
        delete_records,
        begin_transactions,
        lambda _: owner.end(),
    ]
    for ask in asks:
        assert ask(client), f"{ask.__name__}: acknowledged into a log that was set back"


def write(client: WireClient) -> int:
    fields = produce_fields(PLAIN, batch(b"open 1", timestamps=now_ms()).tobytes())
    return int(client.ask(ApiKey.PRODUCE, 8, **fields).responses[0].partition_responses[0].error_code)
