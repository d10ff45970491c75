"""Retention: decides which old segments of a log are kept, why, and until when (Kafka's deleteOldSegments).

Whole segments are deleted, from the oldest on, never from the middle. :func:`survey_log` reads a log,
:func:`plan_retention` decides and changes nothing, :func:`apply_plan` carries the plan out. :func:`retain` does all
three; :func:`preview_retention` only reports what :func:`retain` would do.

Each of Kafka's rules is a :class:`RetentionPolicy`. In Kafka's order, each passes over the log from the oldest segment
that remains to the first one it keeps:

1. :class:`LogStartRetention`: segments wholly below the log start offset, which ``delete_records`` raises;
2. :class:`SizeRetention`: ``retention.bytes``, while at least as many bytes remain without the segment;
3. :class:`TimeRetention`: ``retention.ms``, by the largest record timestamp. The time of the file counts only if no
   record has a timestamp, since copying and restoring reset it (KAFKA-3802).

If ``cleanup.policy`` has no ``delete``, only the first rule applies. A user's own policy replaces the
second and third rule: a class with ``name`` and ``judge``, given as ``package.module:Class`` (:func:`load_policy`) or
as an object (``policies`` of :class:`RetentionOptions`). :class:`ModificationTimeRetention`,
:class:`NewestSegmentsRetention` and :class:`LastGigabytesRetention` are ready for use.

Whatever the rules decide, a segment is kept unless it is wholly below the last stable offset and has been read by every
group named in ``keep_for_groups``.
"""
