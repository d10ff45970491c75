"""Quotas: what the clients of a user, or with a client id, may ask for per second, and how often an address connects.

``entities`` says whose quota a client has; ``store`` is the file that keeps them; ``throttle`` measures what clients
send and get, and returns how long each is to wait. It imports ``security`` for its files and users.
"""
