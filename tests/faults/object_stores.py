"""Faults of logs and tables whose commits are objects of a store."""

from __future__ import annotations

from functools import partial

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import RetainChange
from pyspark_commitlog.storage.errors import ObjectStoreError
from tests.faults.fault import Fault, Mutation, by_itself, given
from tests.storage.bucket import test_collecting, test_commit_log, test_loading, test_proposals, test_replaced_log
from tests.storage.bucket.clients import test_appends, test_transactions
from tests.storage.bucket.commits import test_applying
from tests.support.stores.commits import TOPIC_ID, commit_log, create_topic
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore

_LOG = "storage.bucket.commit_log:CommitLog"
_CANDIDATES = "storage.bucket.collecting:_Candidates"


def _store() -> MemoryStore:
    store = MemoryStore()
    commit_log(store).commit(lambda _: create_topic())
    return store


def _log() -> CommitLog:
    log = commit_log(MemoryStore())
    make_topic(log, "t", 2)
    return log


_long_log = partial(test_loading.written, 321)


FAULTS = [
    Fault(
        108,
        "delta #1410",
        "Two writers commit the same version; the second one overwrites the object of the first, whose rows are lost.",
        by_itself(test_commit_log.test_writers_take_turns_and_every_proposal_sees_what_came_before, _store),
        (Mutation(f"{_LOG}._put", "self.store.put_new(", "self.store.put("),),
    ),
    Fault(
        109,
        "delta-rs #2279",
        "A commit is there, but the writer finds its own object, takes it for another's, and reports a failure.",
        by_itself(test_commit_log.test_a_commit_without_an_answer_is_found_by_reading, _store),
        (
            Mutation(
                f"{_LOG}._is_written",
                "self._apply(found)",
                "if found is not commit:\n                raise self._wrong(ValueError('another was first'))\n"
                "            self._apply(found)",
            ),
        ),
    ),
    Fault(
        110,
        "iceberg #3717",
        "No answer comes; the writer takes its commit for failed and deletes its files, and the commit comes later.",
        by_itself(test_commit_log.test_at_the_deadline_the_outcome_is_unknown, _store, lambda: ObjectStoreError),
        (Mutation(f"{_LOG}._is_written", "raise self._unknown(commit, found)", "return False"),),
    ),
    Fault(
        111,
        "slatedb #352",
        "A writer stalls; what would fence it is deleted, and its next write is acknowledged, but no reader sees it.",
        given(
            test_replaced_log.test_no_writer_commits_to_a_log_that_is_not_the_one_it_opened,
            writer=test_replaced_log.client,
            change=test_replaced_log.lose_commits,
        ),
        (Mutation(f"{_LOG}._put", "self._check_current(self._once())", "pass"),),
    ),
    Fault(
        112,
        "slatedb #271",
        "Two writers open the log at once, and both believe that they have fenced the other.",
        by_itself(test_proposals.test_a_writer_is_fenced_by_the_next_one),
        (
            Mutation(
                "storage.bucket.proposals:commit_write",
                "if app is None or app.epoch != claim.epoch:",
                "if app is None:",
            ),
        ),
    ),
    Fault(
        113,
        "paimon #9666",
        "Spark repeats a micro-batch whose commit it had not noted; its rows are committed twice.",
        by_itself(test_proposals.test_a_version_that_is_committed_is_skipped, lambda: 5),
        (Mutation("storage.bucket.proposals:_is_committed", "staged.version <= last:", "staged.version < last:"),),
    ),
    Fault(
        114,
        "iceberg #4194",
        "What is cleaned up as an orphan belongs to a write that has not been committed yet.",
        by_itself(test_collecting.test_what_nobody_committed_goes_once_it_is_old_and_is_void_before),
        (
            Mutation(
                f"{_CANDIDATES}._is_doomed",
                "return self.now_ms - newest_ms >= self.limits.staged_retention_ms",
                "return True",
            ),
        ),
    ),
    Fault(
        115,
        "slatedb #604",
        "A compaction replaces objects that a reader still has in its snapshot; they are deleted under it.",
        by_itself(
            test_collecting.test_what_the_log_dropped_stays_for_readers_until_the_grace_is_over,
            lambda: RetainChange(TOPIC_ID, 0, 3),
        ),
        (Mutation(f"{_CANDIDATES}._is_doomed", "return dropped <= self.old_commit", "return True"),),
    ),
    Fault(
        116,
        "slatedb #1029",
        "What a compaction wrote is deleted as an orphan before its commit, which then names it.",
        by_itself(test_applying.test_a_segment_that_was_given_up_cannot_be_committed),
        (Mutation("storage.bucket.commits.applying:_check_swap", "uuid not in state.void", "True"),),
    ),
    Fault(
        117,
        "pulsar #17512",
        "An error while its metadata is written has an object deleted that the metadata names.",
        by_itself(test_appends.test_a_write_that_the_collector_made_void_is_put_again),
        (
            Mutation(
                "storage.bucket.clients.appends:_commit",
                "if done.written != planned.written or write in state.void:",
                "if done.written != planned.written:",
            ),
            Mutation("storage.bucket.commits.applying:_check_data", "change.write not in state.void", "True"),
        ),
    ),
    Fault(
        118,
        "redpanda #3039",
        "A producer sends a batch again after its connection broke; it is written twice.",
        by_itself(test_appends.test_a_batch_that_comes_twice_at_once_is_added_once),
        (Mutation("storage.bucket.clients.appends:_Partition.add", "if update.duplicate is not None:", "if False:"),),
    ),
    Fault(
        119,
        "redpanda #3038",
        "Of several batches that are sent again, earlier ones are refused as out of order, and the producer ends.",
        by_itself(test_appends.test_five_batches_of_a_producer_are_recognised),
        (Mutation("storage.recovery.producer_state:ProducerState.batches_with", "[-BATCHES_CACHED:]", "[-1:]"),),
    ),
    Fault(
        120,
        "trino #22748",
        "The hint to the newest checkpoint is empty, and the table cannot be read.",
        by_itself(test_loading.test_a_hint_that_is_missing_old_or_wrong_costs_requests_only, _long_log, lambda: b""),
        (
            Mutation(
                "storage.bucket.loading:read_hint", "CorruptionError, ValueError, KeyError", "CorruptionError, KeyError"
            ),
        ),
    ),
    Fault(
        121,
        "delta #5458",
        "A damaged checkpoint makes a table unreadable whose commits are all there.",
        by_itself(test_loading.test_a_checkpoint_that_is_not_to_be_believed_is_passed_over, _long_log),
        (
            Mutation(
                "storage.bucket.loading:_checkpoint", "except CorruptionError as error:", "except KeyError as error:"
            ),
        ),
    ),
    Fault(
        122,
        "Jepsen, Bufstream 0.1.0",
        "A batch of one transaction arrives late, and becomes part of the producer's next one.",
        by_itself(test_transactions.test_a_batch_of_a_transaction_that_has_ended_is_not_in_the_next_one, _log),
        (
            Mutation("storage.bucket.commits.transactions:problem_of", "if version != (", "if False and version != ("),
            Mutation(
                "storage.bucket.commits.applying:_check_transaction",
                "opened is None or opened.transaction == transaction",
                "True",
            ),
        ),
    ),
]
