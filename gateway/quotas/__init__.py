"""Quotas: limits per second for users, client ids and addresses.

``entities`` finds the quota of a client; ``store`` is the file that keeps quotas; ``throttle`` measures what clients
send and get, and returns how long each must wait. It imports ``security`` for its files and users.
"""
