"""People over HTTP: how they come in, how they sign in, and what they are and have.

invitations    links that give a role, and who accepts them
sessions       signing in by a key, and one's own sessions
oidc           signing in at an OpenID Connect provider
members        members and their roles
personal_keys  their keys
"""
