"""Handlers of requests: a function for each kind, in a module for each family.

A function gets the request and the :class:`Context`, and returns the body of the answer by kio's names, or None if it
answers later. :data:`KINDS` has a row for each kind.
"""
