"""A function for each page: it reads what the page shows, and returns the page.

The functions of a module are listed with their paths in ``application``. They run in threads, and change nothing.
"""
