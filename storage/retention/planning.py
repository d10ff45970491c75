"""From facts and rules to what becomes of each segment. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.retention.facts import LogFacts, SegmentFacts
from pyspark_commitlog.storage.retention.policies import RetentionPolicy, Situation, Verdict, kafka_policies
from pyspark_commitlog.storage.retention.wording import counted

CHECK_INTERVAL_MS = 300_000  # how often Kafka looks: the default of log.retention.check.interval.ms


@dataclass(frozen=True)
class RetentionOptions:
    """What a run is told beside the topic's config."""

    # By group, its lowest committed offset in this partition, 0 where it has none: nothing goes that it has not read.
    keep_for_groups: Mapping[str, int] = field(default_factory=dict)
    policies: Sequence[RetentionPolicy] | None = None  # instead of Kafka's
    check_interval_ms: int = CHECK_INTERVAL_MS  # how often retention runs: reports count with it
    warnings: Sequence[str] = ()  # of the caller, for the report


@dataclass(frozen=True)
class SegmentFate:
    """What becomes of a segment, and why."""

    segment: SegmentFacts
    goes: bool
    rule: str  # the policy, the transaction or the group that decided
    reason: str
    until_ms: int | None = None  # kept: the last moment at which the clock does; None where no clock decides
    removed_by_ms: int | None = None  # by then its bytes are off the disk at the latest, if retention runs on time

    @property
    def lifetime_ms(self) -> int | None:
        """How old its first record can get on the disk."""
        if self.removed_by_ms is None or self.segment.first_timestamp_ms < 0:
            return None
        return self.removed_by_ms - self.segment.first_timestamp_ms


@dataclass(frozen=True)
class RetentionPlan:
    """What goes and what is kept of a log, as of a moment."""

    facts: LogFacts
    now_ms: int
    fates: tuple[SegmentFate, ...]  # of every segment, ascending; those that go come first
    file_delete_delay_ms: int
    check_interval_ms: int
    warnings: tuple[str, ...] = ()

    @property
    def removed(self) -> tuple[SegmentFate, ...]:
        return tuple(fate for fate in self.fates if fate.goes)

    @property
    def kept(self) -> tuple[SegmentFate, ...]:
        return tuple(fate for fate in self.fates if not fate.goes)

    @property
    def log_start_offset(self) -> int:
        """Afterwards."""
        return max([self.facts.log_start_offset, *(fate.segment.next_offset for fate in self.removed)])

    @property
    def rolls(self) -> bool:
        """Whether the active segment goes too, so that a new one must be begun first."""
        return any(fate.segment.is_active for fate in self.removed)


class _Hold(NamedTuple):
    """Nothing that reaches above ``offset`` may go."""

    offset: int
    name: str
    reason: str


@dataclass(frozen=True)
class _Planner:
    facts: LogFacts
    now_ms: int
    policies: Sequence[RetentionPolicy]
    delays_ms: int  # from the moment a segment may go until its bytes are off the disk, at most

    def removed(self, holds: Sequence[_Hold]) -> list[SegmentFate]:
        """Each policy passes over what the ones before it left, from the oldest on to the first it keeps."""
        left = list(reversed(self.facts.segments))
        gone: list[SegmentFate] = []
        situation = Situation(self.now_ms, self.facts.log_start_offset, self.facts.size)
        for policy in self.policies:
            while left and not _held(left[-1], holds) and not _is_empty_active(left[-1]):
                verdict = policy.judge(left[-1], situation)
                if not verdict.goes:
                    break
                segment = left.pop()
                situation = situation.without(segment)
                gone.append(SegmentFate(segment, True, policy.name, verdict.reason))
        return gone

    def kept(self, gone: Sequence[SegmentFate], holds: Sequence[_Hold]) -> Iterator[SegmentFate]:
        """The rest: no segment goes before an older one."""
        situation = Situation(self.now_ms, self.facts.log_start_offset, self.facts.size)
        for fate in gone:
            situation = situation.without(fate.segment)
        before: SegmentFate | None = None
        for segment in self.facts.segments[len(gone) :]:
            fate = self._kept_by_itself(segment, situation, holds)
            before = fate if before is None else _behind(before, fate)
            yield before
            situation = situation._replace(size=situation.size - segment.size)

    def _kept_by_itself(self, segment: SegmentFacts, situation: Situation, holds: Sequence[_Hold]) -> SegmentFate:
        """What keeps the segment, were it the oldest."""
        if _is_empty_active(segment):
            return SegmentFate(segment, False, "active segment", "it is empty, and the next record goes there")
        verdicts = [(policy.name, policy.judge(segment, situation)) for policy in self.policies]
        is_due = any(verdict.goes for _, verdict in verdicts)
        hold = _held(segment, holds)
        if hold is not None and is_due:
            return SegmentFate(segment, False, hold.name, hold.reason)
        fate = self._due(segment, verdicts) if is_due else self._kept_by_policies(segment, verdicts)
        if hold is None:
            return fate
        return replace(fate, reason=f"{fate.reason}; moreover, {hold.reason}", removed_by_ms=None)

    def _due(self, segment: SegmentFacts, verdicts: Sequence[tuple[str, Verdict]]) -> SegmentFate:
        """It would go at once, but an older one does not."""
        name, verdict = next((name, verdict) for name, verdict in verdicts if verdict.goes)
        return SegmentFate(segment, False, name, verdict.reason, self.now_ms, self.now_ms + self.delays_ms)

    def _kept_by_policies(self, segment: SegmentFacts, verdicts: list[tuple[str, Verdict]]) -> SegmentFate:
        """Named first: the clock that lets it go first, then other reasons, then policies without any."""
        verdicts.sort(key=lambda each: (each[1].until_ms is None, each[1].until_ms or 0, not each[1].reason))
        name, verdict = verdicts[0]
        reason = "; ".join(verdict.reason for _, verdict in verdicts if verdict.reason)
        if verdict.until_ms is None:
            return SegmentFate(segment, False, name, reason)
        if segment.is_active:
            reason += "; it is still written to, and every newer record keeps it longer"
        return SegmentFate(segment, False, name, reason, verdict.until_ms, verdict.until_ms + self.delays_ms)


def _behind(before: SegmentFate, fate: SegmentFate) -> SegmentFate:
    """The fate of a segment whose older neighbour has another one: it waits for it."""
    if fate.until_ms is None or (before.until_ms is not None and before.until_ms <= fate.until_ms):
        return fate if before.removed_by_ms is not None else replace(fate, removed_by_ms=None)
    reason = f"the segment before it, {before.segment.base_offset}, is kept; by itself: {fate.reason}"
    return SegmentFate(fate.segment, False, before.rule, reason, before.until_ms, before.removed_by_ms)


def _held(segment: SegmentFacts, holds: Sequence[_Hold]) -> _Hold | None:
    """What keeps a segment whatever the policies say: the one that reaches back furthest."""
    return min((hold for hold in holds if segment.next_offset > hold.offset), default=None)


def _is_empty_active(segment: SegmentFacts) -> bool:
    return segment.is_active and not segment.size


def plan(facts: LogFacts, config: LogConfig, now_ms: int, options: RetentionOptions | None = None) -> RetentionPlan:
    """What goes as of ``now_ms``; nothing is touched."""
    options = options or RetentionOptions()
    policies = kafka_policies(config) if options.policies is None else options.policies
    delays_ms = options.check_interval_ms + config.file_delete_delay_ms
    planner = _Planner(facts, now_ms, policies, delays_ms)
    transaction = _transaction_hold(facts)
    groups = [_group_hold(group, offset, facts) for group, offset in sorted(options.keep_for_groups.items())]
    gone = planner.removed([transaction, *groups])
    fates = (*gone, *planner.kept(gone, [transaction, *groups]))
    held_back = planner.removed([transaction])[len(gone) :] if groups else []
    warnings = (*options.warnings, *_warnings(facts, groups, held_back))
    return RetentionPlan(facts, now_ms, fates, config.file_delete_delay_ms, options.check_interval_ms, warnings)


def _transaction_hold(facts: LogFacts) -> _Hold:
    offset = max(facts.last_stable_offset, facts.log_start_offset)
    return _Hold(offset, "open transaction", f"a transaction is open from offset {offset} on")


def _group_hold(group: str, offset: int, facts: LogFacts) -> _Hold:
    """What lies below the log start nobody can read any more, so it is not kept for a group either."""
    bound = max(offset, facts.log_start_offset)
    return _Hold(bound, f"group {group}", f"group {group!r} has read up to offset {offset} only")


def _warnings(facts: LogFacts, groups: Sequence[_Hold], held_back: Sequence[SegmentFate]) -> Iterator[str]:
    """How much would go but for the groups that are furthest behind."""
    if not held_back:
        return
    slowest = min(group.offset for group in groups)
    who = " and ".join(group.name for group in groups if group.offset == slowest)
    size = sum(fate.segment.size for fate in held_back)
    yield (
        f"{counted(len(held_back), 'segment')} with {size:,} of the {facts.size:,} bytes would go, were they not kept "
        f"for {who}, {counted(facts.log_end_offset - slowest, 'offset')} behind the log end"
    )
