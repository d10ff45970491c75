"""Fetch sessions: requests and answers carry what changed, as a client of KIP-227 and a broker's cache expect."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.gateway import fetch_sessions
from pyspark_commitlog.gateway.fetch_sessions import EVICTION_S, FINAL, INITIAL, FetchSessions
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.bodies import ErrorCode
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.protocol.fetch import Fetched, FetchPartition, FetchRequest
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields
from tests.support.logs.building import batch

ALICE, BOB = "User:alice", "User:bob"
A, B, C = (("t", number) for number in range(3))


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> FetchSessions:
    return FetchSessions(2, clock)


def asked(
    epoch: int, *keys: tuple[str, int], session: int = 0, forgotten: Sequence[tuple[str, int]] = (), offset: int = 0
) -> FetchRequest:
    partitions = [FetchPartition(topic, number, -1, offset, 100) for topic, number in keys]
    return FetchRequest(0, 1, 100, False, session, epoch, partitions, forgotten)


def answered(key: tuple[str, int], end: int = 0, records: bytes = b"", **more: Any) -> Fetched[bytes]:
    return Fetched(*key, high_watermark=end, log_start_offset=0, records=records, **more)


def begun(sessions: FetchSessions, *keys: tuple[str, int], owner: str = ALICE) -> int:
    """The id of a new session with these partitions, whose ends are 0."""
    fetching = sessions.resolve(asked(INITIAL, *keys), owner, by_topic_id=False)
    return fetching.send([answered(key) for key in keys]).session_id


def refused(sessions: FetchSessions, request: FetchRequest, owner: str = ALICE, *, by_topic_id: bool = False) -> int:
    with pytest.raises(RequestError) as caught:
        sessions.resolve(request, owner, by_topic_id=by_topic_id)
    return caught.value.code


def keys_of(found: Sequence[Any]) -> list[tuple[str, int]]:
    return [(each.topic, each.partition) for each in found]


def test_a_later_request_stands_for_all_partitions_of_its_session(sessions: FetchSessions) -> None:
    session = begun(sessions, A, B)
    fetching = sessions.resolve(asked(1, B, session=session, offset=7), ALICE, by_topic_id=False)
    assert [(each.partition, each.offset) for each in fetching.asked.partitions] == [(0, 0), (1, 7)]
    fetching = sessions.resolve(asked(2, C, session=session, forgotten=[A]), ALICE, by_topic_id=False)
    assert keys_of(fetching.asked.partitions) == [B, C]


def test_a_later_request_has_the_leader_epochs_of_its_session(sessions: FetchSessions) -> None:
    first = asked(INITIAL)._replace(partitions=[FetchPartition(*A, leader_epoch=5, offset=0, max_bytes=100)])
    session = sessions.resolve(first, ALICE, by_topic_id=False).send([answered(A)]).session_id
    later = sessions.resolve(asked(1, session=session), ALICE, by_topic_id=False).asked
    assert [each.leader_epoch for each in later.awake("terms")] == [5]


def test_an_earlier_request_that_waits_looks_again_when_a_later_one_changes_partitions(sessions: FetchSessions) -> None:
    session, woken = begun(sessions, A, B), list[int]()
    earlier = sessions.resolve(asked(1, session=session), ALICE, by_topic_id=False).asked
    assert len(earlier.awake("terms")) == 2
    assert earlier.wait(lambda: woken.append(1)), "nothing has moved"
    sessions.resolve(asked(2, B, session=session, offset=7), ALICE, by_topic_id=False)
    assert woken == [1]
    assert not earlier.wait(lambda: None), "something has moved since it looked"


def test_an_answer_has_what_changed(sessions: FetchSessions) -> None:
    session = begun(sessions, A, B, C)
    send = sessions.resolve(asked(1, session=session), ALICE, by_topic_id=False).send
    nothing = [answered(A), answered(B), answered(C)]
    assert send(nothing) == ([], session)
    assert keys_of(send([answered(A, 1), *nothing[1:]]).answers) == [A], "its high watermark moved"
    moved = [answered(A, 1), answered(B)._replace(log_start_offset=1), answered(C)]
    assert keys_of(send(moved).answers) == [B], "its log start offset moved"
    assert keys_of(send([*moved[:2], answered(C, records=b"r")]).answers) == [C]


def test_an_error_is_sent_each_time_and_its_end_too(sessions: FetchSessions) -> None:
    session = begun(sessions, A)
    send = sessions.resolve(asked(1, session=session), ALICE, by_topic_id=False).send
    error = Fetched(*A, ErrorCode.unknown_topic_or_partition)
    assert [keys_of(send([error]).answers) for _ in range(2)] == [[A], [A]]
    assert keys_of(send([answered(A)]).answers) == [A]
    assert keys_of(send([answered(A)]).answers) == []


def test_partitions_with_records_go_behind_the_others(sessions: FetchSessions) -> None:
    session = begun(sessions, A, B, C)
    fetching = sessions.resolve(asked(1, session=session), ALICE, by_topic_id=False)
    fetching.send([answered(A, 1, b"r"), answered(B, 1), answered(C)])  # B has moved, and had no room for records
    following = sessions.resolve(asked(2, session=session), ALICE, by_topic_id=False)
    assert keys_of(following.asked.partitions) == [B, C, A]


def test_a_session_may_begin_without_partitions_and_get_some_later(sessions: FetchSessions) -> None:
    session = begun(sessions)
    assert session
    fetching = sessions.resolve(asked(1, A, session=session), ALICE, by_topic_id=False)
    assert keys_of(fetching.asked.partitions) == [A]


def test_wrong_sessions_and_epochs_are_refused(sessions: FetchSessions) -> None:
    session = begun(sessions, A)
    assert refused(sessions, asked(1, session=session + 1)) == ErrorCode.fetch_session_id_not_found
    assert refused(sessions, asked(2, session=session)) == ErrorCode.invalid_fetch_session_epoch
    assert refused(sessions, asked(1, session=session), BOB) == ErrorCode.fetch_session_id_not_found
    assert refused(sessions, asked(1, session=session), by_topic_id=True) == ErrorCode.fetch_session_topic_id_error
    sessions.resolve(asked(1, session=session), ALICE, by_topic_id=False)
    assert refused(sessions, asked(1, session=session)) == ErrorCode.invalid_fetch_session_epoch


@pytest.mark.parametrize("epoch", [INITIAL, FINAL])
def test_a_whole_request_ends_the_session_that_it_names_but_no_other_users(sessions: FetchSessions, epoch: int) -> None:
    session = begun(sessions, A)
    sessions.resolve(asked(epoch, A, session=session), BOB, by_topic_id=False)
    assert len(sessions) == 1
    sessions.resolve(asked(epoch, A, session=session), ALICE, by_topic_id=False)
    assert len(sessions) == 0


def test_a_session_without_partitions_ends(sessions: FetchSessions) -> None:
    session = begun(sessions, A)
    fetching = sessions.resolve(asked(1, session=session, forgotten=[A]), ALICE, by_topic_id=False)
    assert (fetching.asked.partitions, fetching.send([]).session_id, len(sessions)) == ((), 0, 0)


def test_where_no_slot_is_free_an_idle_session_ends_or_an_old_smaller_one(
    sessions: FetchSessions, clock: Clock
) -> None:
    first, second = begun(sessions, A, B), begun(sessions, A, B)
    assert begun(sessions, A, B, C) == 0, "both are young"
    clock.now_s = EVICTION_S + 1
    for each in (first, second):
        sessions.resolve(asked(1, session=each), ALICE, by_topic_id=False)
    assert begun(sessions, A) == 0, "both are in use and no smaller"
    third = begun(sessions, A, B, C)
    assert third
    assert refused(sessions, asked(2, session=first)) == ErrorCode.fetch_session_id_not_found
    clock.now_s *= 3
    assert begun(sessions, A), "the oldest is idle"
    assert refused(sessions, asked(2, session=second)) == ErrorCode.fetch_session_id_not_found


def test_all_sessions_together_have_so_many_partitions(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 2)
    session = begun(sessions, A)
    assert begun(sessions, A, B) == 0
    assert refused(sessions, asked(1, B, C, session=session)) == ErrorCode.fetch_session_id_not_found
    assert begun(sessions, A, B), "the room is free again"


def test_names_that_no_topic_has_are_not_kept(sessions: FetchSessions) -> None:
    longest, longer = ("x" * 249, 0), ("x" * 250, 0)
    assert begun(sessions, A, longer) == 0
    session = begun(sessions, A, longest)
    assert refused(sessions, asked(1, longer, session=session)) == ErrorCode.fetch_session_id_not_found
    assert (len(sessions), sessions._partitions) == (0, 0)


def test_without_slots_there_are_no_sessions() -> None:
    assert begun(FetchSessions(0), A) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_client_of_a_session_knows_what_whole_answers_say(seed: int) -> None:
    chance, sessions = Random(seed), FetchSessions(1)
    ends, offsets, known = dict.fromkeys((A, B, C), 0), dict.fromkeys((A, B), 0), dict[tuple[str, int], int]()
    session, epoch, sent = 0, 0, dict[tuple[str, int], int]()
    for _ in range(60):
        ends[chance.choice([A, B, C])] += chance.randrange(2)
        if chance.random() < 0.2:
            offsets.pop(gone) if (gone := chance.choice([A, B, C])) in offsets else offsets.setdefault(gone, ends[gone])
        if not offsets:
            continue
        is_whole = not session or chance.random() < 0.1
        changed = {key: at for key, at in offsets.items() if is_whole or sent.get(key) != at}
        forgotten = [] if is_whole else [key for key in sent if key not in offsets]
        partitions = [FetchPartition(*key, -1, at, 100) for key, at in changed.items()]
        request = FetchRequest(0, 1, 100, False, session, 0 if is_whole else epoch, partitions, forgotten)
        fetching = sessions.resolve(request, ALICE, by_topic_id=False)
        sent = dict(offsets)
        found = {(each.topic, each.partition): each.offset for each in fetching.asked.partitions}
        assert found == offsets
        answers = [answered(key, ends[key], b"r" * (ends[key] - at)) for key, at in found.items()]
        if is_whole:
            known = {}
        answer = fetching.send(answers)
        session, epoch = answer.session_id, 1 if is_whole else epoch + 1
        for each in answer.answers:
            key = str(each.topic), each.partition
            known[key] = each.high_watermark
            offsets[key] += each.size
        assert {key: known[key] for key in offsets} == {key: ends[key] for key in offsets}
        assert offsets == {key: ends[key] for key in offsets}


def changes(client: WireClient, session: int, epoch: int, **more: Any) -> Any:
    return client.ask(1, 12, **fetch_fields("", 0, topics=(), session_id=session, session_epoch=epoch, **more))


def test_a_client_gets_what_changed_over_the_wire(client: WireClient, topic: str) -> None:
    create_topic(client, other := f"{topic}-other")
    fields = fetch_fields(topic, 0, session_epoch=0)
    fields["topics"] += fetch_fields(other, 0)["topics"]
    first = client.ask(1, 12, **fields)
    assert (first.error_code, len(first.responses), first.session_id > 0) == (0, 2, True)
    assert changes(client, first.session_id, 1).responses == ()
    client.ask(0, 8, **produce_fields(other, batch(b"new").tobytes()))
    second = changes(client, first.session_id, 2)
    assert [each.topic for each in second.responses] == [other]
    assert second.session_id == first.session_id
    forgotten = [{"topic": other, "partitions": [0]}]
    third = changes(client, first.session_id, 3, forgotten_topics_data=forgotten)
    assert third.responses == ()
    wrong = changes(client, first.session_id, 3)
    assert (wrong.error_code, wrong.session_id, wrong.responses) == (71, 0, ())
    changes(client, first.session_id, FINAL)
    assert changes(client, first.session_id, 4).error_code == 70


def test_a_request_in_a_session_waits_for_records_of_any_of_its_partitions(
    gateway: Gateway, client: WireClient, topic: str
) -> None:
    session = client.ask(1, 12, **fetch_fields(topic, 0, session_epoch=0)).session_id
    fields = fetch_fields("", 0, topics=(), session_id=session, session_epoch=1, max_wait=20_000)
    sent = client.send(1, 12, **fields)
    with WireClient(gateway) as producer:
        producer.ask(0, 8, **produce_fields(topic, batch(b"new").tobytes()))
    (found,) = client.answer(1, 12, sent).responses[0].partitions
    assert b"new" in found.records
