"""A page in a browser that shows what is in a log, and changes nothing.

``server`` serves it, for the command; ``views`` has a function for each page, ``pages`` their templates, ``static`` the
style and the script. It reads a log through the public names of ``storage`` alone. starlette, uvicorn and jinja2 are
the extra ``browse``.
"""
