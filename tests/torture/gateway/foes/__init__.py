"""Clients that mean no good beside honest ones, and logs on object stores that are set back under a gateway."""
