"""Who calls, and what belongs to a workspace.

    authenticate      Authenticator: from a credential to a Caller, or 401
    workspaces        made, changed, paid for; the first one of an installation
    keys              API keys: issued once, kept as digests, rotated, revoked for good
    provider_keys     ProviderKeys: a workspace's own keys at providers
    webhook_secrets   WebhookSecrets: what its webhooks are signed with
    secrets           sealing stored texts again with another master secret
    rate_limits       limits of requests of keys and models, as owners set them
    rate_windows      RateWindows: quotas of requests, added up over all servers
    key_uses          KeyUses: when keys were last used
    members           people: their roles in workspaces; the first operator
    personal_keys     their keys, with what bounds each
    invitations       Invitations: links that give a role in a workspace to whoever accepts
    sessions          Sessions: signing in, and who calls the administration API
    single_sign_on    SingleSignOn: signing in at an OpenID Connect provider
    sweeping          AccountSweeper: sessions and deleted workspaces end when their time has come
    request_limits    RequestLimits: how often a member or an address may ask
    audit_log         who has done what, when and from where
    editor_documents  EditorDocuments: what editors keep for a workspace

It imports no other noun. A secret is never told again after it was made, but to be used.
"""
