"""Workspaces and what belongs to them, as rows.

    workspaces        create, change and list workspaces and API keys; caller_by_key finds who calls
    credits           money that is booked in, once for each idempotency key
    provider_keys     workspaces' own keys at providers, sealed
    sealed_rows       everything that is kept sealed, and with which master secret
    rate_limits       limits of requests of keys and models
    rate_windows      requests per workspace and window, added up over all servers
    storage_usage     what each workspace keeps, and check_room, which refuses more
    key_secrets       what API keys and personal keys have in common: secrets, ends, last uses
    members           people and their roles; sessions.py those who have signed in
    personal_keys     their keys
    invitations       links that give a role in a workspace to whoever accepts
    audit_log         record_act and with_entry: who did what, written with the change
    editor_documents  what editors keep for a workspace

It imports `db` alone. A key or a secret is never kept, nor returned, as plain text: digests and sealed bytes only.
"""
