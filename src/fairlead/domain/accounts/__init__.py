"""Who calls, and what belongs to a workspace.

rights            roles, rights, and who acts
callers           Caller, its gate, and what it may do
provider_keys     a workspace's own keys at providers
token_issuers     whose tokens an operator believes
rate_windows      quotas of requests in a minute and in a day
storage_limits    how many bytes and files a workspace may keep
editor_documents  what editors keep for a workspace
"""
