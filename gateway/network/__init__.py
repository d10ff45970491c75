"""Sockets: an acceptor for each listener, processor threads with their connections, frames in and answers out.

This room knows frames, not requests: an :class:`Exchange` is a frame with its pending answer, and :class:`Processor`
calls the function it was created with to serve it. Answers are sent in the order of the frames, whichever thread gives
them. A connection knows its processor as a :class:`Loop`, which is below it; ``limits/`` has what clients may take.
"""
