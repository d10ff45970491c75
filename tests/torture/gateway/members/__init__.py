"""A group whose members come, leave, rest, stop and are killed, in both protocols, while topics grow and gateways die.

``process`` is a member's program, ``lives`` starts members and does things to them, ``history`` says what they noted
and which of it is a fault, ``suite`` draws the schedules.
"""
