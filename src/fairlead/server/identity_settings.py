"""The options about who somebody is: the server's own secret, tokens, OpenID Connect, invitations."""

from dataclasses import dataclass

from fairlead.server import setting_readers as readers
from fairlead.server.setting_readers import option


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitySettings:
    """The part of the options of a server that says whose word about callers and members is taken."""

    secret_key: str | None = option(
        None,
        "The server's secret, 32 bytes in base64, or several; empty means the file `secret-key` in the data directory.",
        shown=False,
    )
    static_token: str | None = option(
        None,
        "The one token that opens a self_hosted jobs API; empty lets everybody in.",
        readers.static_token,
        shown=False,
    )
    jwt_jwks: str | None = option(
        None, "A file or URL with the JSON Web Key Set of the token issuer (RS256, ES256).", shown=False
    )
    jwt_secret: str | None = option(None, "A shared secret for HS256 tokens, instead of a key set.", shown=False)
    jwt_issuer: str | None = option(None, "The issuer (`iss`) tokens must name; needed to take tokens.")
    jwt_audience: str | None = option(None, "The audience (`aud`) tokens must name; needed to take tokens.")
    token_issuers: str | None = option(None, "More issuers of tokens: a JSON array, or a file.")
    jwt_leeway_seconds: float = option(
        30.0, "How far the clocks of issuer and server may differ.", readers.number(0, 600)
    )
    jwt_workspace_claim: str = option("workspace", "The claim that names the workspace a token speaks for.")
    jwt_models_claim: str = option("models", "The claim that limits a token to some models (an array of patterns).")
    oidc_issuer: str | None = option(
        None, "The OpenID Connect provider that members may sign in at: its issuer.", readers.base_url
    )
    oidc_client_id: str | None = option(None, "What the provider calls this installation; needed with an issuer.")
    oidc_client_secret: str | None = option(
        None, "The secret that the provider has given this installation; empty for a public client.", shown=False
    )
    oidc_scopes: str = option("openid email", "What is asked of the provider, with spaces between.")
    oidc_name: str = option("Single sign-on", "What the provider is called where members sign in.")
    oidc_groups_claim: str = option("groups", "The claim of the ID token that names a person's groups.")
    oidc_group: str | None = option(
        None, "The group of the provider whose members alone may sign in there; empty lets every member in."
    )
    key_sign_in: bool = option(
        True, "Whether members may sign in by a personal key; false needs an OpenID Connect provider.", readers.boolean
    )
    invitation_hours: float = option(168.0, "How long an invitation can be accepted.", readers.number(0.0001, 24 * 365))
