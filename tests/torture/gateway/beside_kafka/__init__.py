"""Random requests of users with few rights, to a gateway and to a real broker with the StandardAuthorizer.

``questions`` has the requests, ``sides`` the two that are asked, ``suite`` compares their answers.
"""
