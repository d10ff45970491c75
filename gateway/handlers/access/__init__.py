"""Authorization: each kind of request is checked against the rules here, before its handler gets it.

A request is refused as a whole, or the topics and groups that the client may not use are removed from it and their
errors are added to the handler's answer, as ``KafkaApis`` does. Before that, ``repeated`` removes repeated names.
Produce and Fetch, which are read by hand, call :func:`refusal_to_write` and :func:`check_topic`. Reserved names of
topics are refused here too, to every client. Which guard a kind of request has is in ``handlers/table``.
"""
