"""The Produce requests of many clients at once: ``requests`` finds and checks them, ``answers`` encodes the answers.

Both are kernels, imported when they are used; ``tables`` has their arrays.
"""
