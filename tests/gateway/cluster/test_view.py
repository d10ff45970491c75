"""View: leaders by rendezvous hashing, and their epochs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pyspark_commitlog.gateway.cluster.view import HISTORY_MAX, NOBODY, Leader, View
from pyspark_commitlog.registry.errors import RegistryError

PARTITIONS = [(topic, number) for topic in ("orders", "flights", "__consumer_offsets") for number in range(200)]


def leaders(view: View) -> dict[tuple[str, int], Leader]:
    return {each: view.leader(*each) for each in PARTITIONS}


def test_nobody_leads_before_a_node_is_there() -> None:
    assert View().leader("t", 0) == Leader(NOBODY, 0)


def test_one_node_leads_everything_from_epoch_0_on() -> None:
    assert set(leaders(View().changed([7])).values()) == {Leader(7, 0)}


def test_nodes_lead_about_as_many_partitions_each() -> None:
    counts = Counter(leader.node for leader in leaders(View().changed([1, 2, 3])).values())
    assert set(counts) == {1, 2, 3}
    assert min(counts.values()) > len(PARTITIONS) / 3 * 0.75


def test_a_node_that_goes_moves_only_its_own_partitions_and_gets_them_back() -> None:
    three = View().changed([1, 2, 3])
    two = three.changed([1, 3])
    again = two.changed([1, 2, 3])
    for partition, before in leaders(three).items():
        after, back = two.leader(*partition), again.leader(*partition)
        if before.node == 2:
            assert after.node in (1, 3)
            assert (after.epoch, back) == (1, Leader(2, 2))
        else:
            assert after == back == before == Leader(before.node, 0)


def test_an_epoch_never_falls_and_rises_with_each_other_leader() -> None:
    view, random_ = View(), random.Random(1)
    before = leaders(view)
    for _ in range(HISTORY_MAX + 20):
        view = View.decode(view.changed(random_.sample(range(5), random_.randint(0, 5))).encode())
        for partition, now in leaders(view).items():
            was = before[partition]
            assert now.epoch >= was.epoch
            assert now.node == was.node or now.epoch > was.epoch or was.node == NOBODY
            before[partition] = now
    assert len(view.history) == HISTORY_MAX


def test_leaders_of_any_names_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_commitlog.gateway.cluster.view.REMEMBERED_MAX", 10)
    view = View().changed([1, 2, 3])
    assert leaders(view) == leaders(View().changed([1, 2, 3]))
    assert len(view._leaders) <= 10


def test_all_nodes_see_the_same_leaders() -> None:
    view = View().changed([1, 2, 3]).changed([2, 3])
    assert leaders(View.decode(view.encode())) == leaders(view)


@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b'{"history":1}', b'{"history":[]}', b'{"history":[[1]]}'])
def test_what_is_no_view_is_refused(data: bytes | None) -> None:
    with pytest.raises(RegistryError, match="is not a list of live nodes"):
        View.decode(data)
