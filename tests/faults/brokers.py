"""Faults of what a broker does besides its log: fetches that wait, fetch sessions, rules, logins, quotas, nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from pyspark_commitlog.gateway.fetch_sessions import FetchSessions
from pyspark_commitlog.gateway.threads.disk import DiskWorker
from pyspark_commitlog.gateway.threads.worker import Worker
from tests.faults.fault import Fault, Mutation, Scenario, by_itself, call_by_name, given, in_directory, on_gateway
from tests.gateway import test_fetch_sessions
from tests.gateway.cluster import test_view
from tests.gateway.handlers.access import test_internal_topics
from tests.gateway.handlers.brokers import test_client_quotas
from tests.gateway.partitions import test_appender, test_file_partition
from tests.gateway.quotas import test_entities, test_store
from tests.gateway.security import test_logins, test_rules
from tests.gateway.threads import test_disk
from tests.storage.recovery import test_leader_epochs
from tests.storage.writing.checks import test_batches
from tests.support.gateway import WireClient, create_topic, serving

_SESSIONS = "gateway.fetch_sessions:FetchSessions"
_RULES = "gateway.security.rules:Rules"


def _on_sessions(test: Callable[..., object]) -> Scenario:
    """A test that gets fetch sessions, and their clock."""

    @wraps(test)
    def scenario(_: Path) -> None:
        clock = test_fetch_sessions.Clock()
        call_by_name(test, {"sessions": FetchSessions(2, clock), "clock": clock})

    return scenario


def _with_quotas(test: Callable[..., object]) -> Scenario:
    """A test that gets a gateway with a file of quotas, and its administrator."""

    @wraps(test)
    def scenario(directory: Path) -> None:
        settings = {"commitlog_quotas_file": str(directory / "quotas.json")}
        with serving(directory / "log", **settings) as limited, WireClient(limited, "admin") as admin:
            create_topic(admin, "t")
            call_by_name(test, {"limited": limited, "admin": admin})

    return scenario


def one_answer_fails_and_the_others_are_given(_: Path) -> None:
    home = Worker("home")
    words = test_disk.Words(DiskWorker("disk", list[str], list[str].clear), home)
    words._answer_all(["wrong", "right"], [None, None])
    assert words.answered == [("right", None)]


FAULTS = [
    Fault(
        89,
        "KAFKA-9137",
        "The time of last use of a fetch session is not noted; sessions in use are evicted.",
        _on_sessions(test_fetch_sessions.test_where_no_slot_is_free_an_idle_session_ends_or_an_old_smaller_one),
        (Mutation(f"{_SESSIONS}._go_on", "session.used_s = self._now_s()", "pass"),),
    ),
    Fault(
        90,
        "KAFKA-12330",
        "A partition whose end has moved goes behind the others of its session though it had no room; it starves.",
        _on_sessions(test_fetch_sessions.test_partitions_with_records_go_behind_the_others),
        (Mutation(f"{_SESSIONS}._changed", "if answer.size:", "if True:"),),
    ),
    Fault(
        91,
        "KAFKA-9338",
        "A fetch session forgets leader epochs; only its first request is checked for a truncated log.",
        _on_sessions(test_fetch_sessions.test_a_later_request_has_the_leader_epochs_of_its_session),
        (
            Mutation(
                "gateway.resting:OfSession.awake",
                "[each.asked for each in self._awake]",
                "[each.asked._replace(leader_epoch=-1) for each in self._awake]",
            ),
        ),
    ),
    Fault(
        92,
        "KAFKA-6946",
        "An answer to a consumer above its quota has no session id, so the consumer gives up its session.",
        _with_quotas(test_client_quotas.test_a_consumer_above_its_quota_keeps_its_fetch_session),
        (
            Mutation(
                "gateway.handlers.fetch:_Fetching._take",
                "session_id=session_id, throttle_ms",
                "session_id=0 if throttle_ms else session_id, throttle_ms",
            ),
        ),
    ),
    Fault(
        93,
        "KAFKA-6653",
        "What completes a fetch happens between its look and its wait; it waits until its time is over.",
        by_itself(test_file_partition.test_those_who_wait_are_woken_once_when_more_is_shown),
        (
            Mutation(
                "gateway.partitions.led_partition:LedPartition.wait",
                "if self.is_gone or self.ends != seen:",
                "if self.is_gone:",
            ),
        ),
    ),
    Fault(
        94,
        "KAFKA-17240",
        "An error while one request is completed keeps the others that wait from their answers.",
        one_answer_fails_and_the_others_are_given,
        (Mutation("gateway.threads.disk:Store._answer_all", "except Exception:", "except KeyError:"),),
    ),
    Fault(
        95,
        "KAFKA-9171",
        "A partition leaves the node while a fetch waits for it; the error is not handled, nor the fetch completed.",
        by_itself(test_file_partition.test_those_who_wait_are_woken_when_the_partition_goes),
        (Mutation("gateway.partitions.file_reading:FileReading.leave", "self.wake()", "pass"),),
    ),
    Fault(
        96,
        "KAFKA-10778",
        "After a failed write, further batches are appended until the log is taken offline.",
        in_directory(test_appender.test_a_failing_disk_is_answered_from_a_turn_too),
        (Mutation("storage.writing.durability:FailStop.__enter__", "if self.failure is not None:", "if False:"),),
    ),
    Fault(
        97,
        "KAFKA-14265",
        "A rule with one prefix hides a rule with a shorter one.",
        by_itself(test_rules.test_prefixes_within_others_and_of_one_letter_count),
        (
            Mutation(
                "gateway.security.rules:_Index.about",
                "for length in self._lengths if length <= len(name)",
                "for length in self._lengths[-1:] if length <= len(name)",
            ),
        ),
    ),
    Fault(
        98,
        "KAFKA-7702",
        "A rule whose prefix is one letter does not count.",
        by_itself(test_rules.test_prefixes_within_others_and_of_one_letter_count),
        (Mutation("gateway.security.rules:_Index.about", "if length <= len(name)", "if 1 < length <= len(name)"),),
    ),
    Fault(
        99,
        "KAFKA-14435",
        "Where resources without rules are open to everyone, so are those whose rules do not name the user.",
        by_itself(test_rules.test_who_may_use_what_no_rule_is_about_may_not_use_what_others_may),
        (
            Mutation(
                f"{_RULES}._decides_about",
                "found = self._index.about(kind, name)",
                "found = [each for each in self._index.about(kind, name) if each.covers(client)]",
            ),
        ),
    ),
    Fault(
        100,
        "KAFKA-9658",
        "A quota is removed, but clients are held to it until a restart.",
        in_directory(test_store.test_quotas_hold_here_at_once_elsewhere_within_a_second_and_after_a_start),
        (
            Mutation(
                "gateway.quotas.store:_changed",
                "{**after.get(entity, {}), **values}",
                "{**values, **after.get(entity, {})}",
            ),
        ),
    ),
    Fault(
        101,
        "KAFKA-9980",
        "The quota of all users without their own cannot be set.",
        by_itself(test_entities.test_the_most_specific_quota_counts, lambda: 5),
        (Mutation("gateway.quotas.entities:_candidates", "for name in (user, DEFAULT):", "for name in (user,):"),),
    ),
    Fault(
        102,
        "KAFKA-14943",
        "A quota of zero or less is accepted.",
        _with_quotas(test_client_quotas.test_what_is_wrong_is_refused_and_the_others_are_set),
        (
            Mutation(
                "gateway.handlers.brokers.client_quotas:_rate", "not 0 < op.value <= largest", "op.value > largest"
            ),
        ),
    ),
    Fault(
        103,
        "KAFKA-9241",
        "A client that logged in without SaslAuthenticate is not made to log in again when its login has expired.",
        given(test_logins.test_a_login_expires_after_its_time),
        (
            Mutation(
                "gateway.security.session:Session._end", "self._expires_s = time.monotonic() + self.lasts_s", "pass"
            ),
        ),
    ),
    Fault(
        104,
        "KAFKA-6554",
        "A batch whose offsets do not fit its number of records is appended.",
        given(
            test_batches.TestStructure().test_a_client_batch_that_contradicts_itself_is_refused,
            header={"last_offset_delta": 3},
        ),
        (
            Mutation(
                "storage.writing.checks.batches:_check_batches",
                " or (origin is Origin.CLIENT and count != last - first + 1)",
                "",
            ),
        ),
    ),
    Fault(
        105,
        "KAFKA-15109",
        "Another node becomes the leader of a partition without another leader epoch.",
        by_itself(test_view.test_an_epoch_never_falls_and_rises_with_each_other_leader),
        (Mutation("gateway.cluster.view:View._leader", "since = epoch", "since = min(epoch, 1)"),),
    ),
    Fault(
        106,
        "KAFKA-6857",
        "The end of an epoch that nobody knows is asked for; the answer is the end of the log.",
        by_itself(test_leader_epochs.test_the_end_of_an_epoch, lambda: -1, lambda: (-1, -1)),
        (
            Mutation(
                "storage.recovery.leader_epochs:LeaderEpochCache.end_offset_for",
                "epoch == NO_LEADER_EPOCH or epoch > latest.epoch",
                "epoch > latest.epoch",
            ),
        ),
    ),
    Fault(
        107,
        "KIP-1246",
        "Any client that calls itself `__admin_client` may write to internal topics.",
        on_gateway(
            test_internal_topics.test_the_name_of_an_administrator_opens_no_internal_topic,
            settings=test_internal_topics.ONE_EACH,
            topic="__consumer_offsets",
        ),
        (
            Mutation(
                "gateway.handlers.access.guards:may_write_internal_topics",
                "return context.config.commitlog_internal_topics_writable",
                "return True",
            ),
        ),
    ),
]
