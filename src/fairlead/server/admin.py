"""The administration API: its handlers, with what each needs."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import fields
from typing import Final

from fairlead.api.admin.access import AdminAccess
from fairlead.api.admin.api import PREFIX, AdminApi
from fairlead.api.admin.audit_log import AuditLogHandlers
from fairlead.api.admin.budgets import BudgetHandlers
from fairlead.api.admin.deployments import DeploymentHandlers
from fairlead.api.admin.documents import OidcMethod
from fairlead.api.admin.installation import InstallationHandlers, SettingShown
from fairlead.api.admin.jobs import JobHandlers
from fairlead.api.admin.keys import KeyHandlers
from fairlead.api.admin.ledger import LedgerHandlers
from fairlead.api.admin.people.invitations import InvitationHandlers
from fairlead.api.admin.people.members import MemberHandlers
from fairlead.api.admin.people.oidc import START, OidcHandlers
from fairlead.api.admin.people.personal_keys import PersonalKeyHandlers
from fairlead.api.admin.people.sessions import SessionHandlers
from fairlead.api.admin.rate_limits import RateLimitHandlers
from fairlead.api.admin.refunds import RefundHandlers
from fairlead.api.admin.registry import RegistryHandlers
from fairlead.api.admin.rerates import RerateHandlers
from fairlead.api.admin.runs import RunHandlers
from fairlead.api.admin.upkeep import UpkeepHandlers
from fairlead.api.admin.workspaces import WorkspaceHandlers
from fairlead.api.http.route import bind_handlers
from fairlead.domain.accounts.rate_windows import Quota, Span, quotas_of
from fairlead.identity.oidc import OidcClient, OidcProvider
from fairlead.identity.sealing import Sealer
from fairlead.operations.accounts.invitations import AcceptingInvitations
from fairlead.operations.accounts.request_limits import RequestLimits
from fairlead.operations.accounts.sessions import Sessions
from fairlead.operations.accounts.single_sign_on import SingleSignOn
from fairlead.operations.deployments import Deployments
from fairlead.operations.file_audits import FileAudits
from fairlead.operations.ledger.accounts import Accounts
from fairlead.operations.ledger.corrections import Refunds
from fairlead.operations.ledger.rerates import Rerates
from fairlead.operations.outages import AnsweringDatabase
from fairlead.operations.runs.inspect import RunInspector
from fairlead.operations.runs.results import Results
from fairlead.server.base import Base, Jobs, credential_reader, header_names
from fairlead.server.installation import secret_rotation, tiers_of, workspace_grace_ms
from fairlead.server.messaging import publish_changed_workspace
from fairlead.server.posting import invitations_of
from fairlead.server.runs import Runs
from fairlead.server.settings import SETTINGS, BadSettingError, Settings

_LOGINS: Final = (Quota(Span.MINUTE, 10), Quota(Span.DAY, 500))
"""How often an address may try to sign in.

A key has 256 random bits, so this bounds the load that a stranger can cause rather than guessing.
"""

_LETTERS: Final = (Quota(Span.MINUTE, 20), Quota(Span.DAY, 500))
"""How often a workspace may invite: the letters go to strangers, in the name of the operator."""


def admin_api(settings: Settings, base: Base, runs: Runs, jobs: Jobs | None, stack: AsyncExitStack) -> AdminApi:
    """Make the administration API.

    It uses a database whose outages callers see as 503.
    """
    database = AnsweringDatabase(base.database)
    sessions = Sessions(database, base.authenticator, base.clock)
    credentials = credential_reader(settings)
    quotas = quotas_of(settings.requests_per_minute, settings.requests_per_day)
    access = AdminAccess(database, sessions, credentials, base.windows, RequestLimits(quotas, base.clock))
    changed = publish_changed_workspace(base.messaging.wakeups)
    handlers: Sequence[object] = (
        *_people(settings, base, runs, access, stack),
        WorkspaceHandlers(
            database, tiers_of(settings), settings.storage_limits(), changed, workspace_grace_ms(settings), base.clock
        ),
        KeyHandlers(
            database,
            base.catalog,
            base.own_keys,
            runs.posting.webhook_secrets,
            settings.key_prefix,
            changed,
            base.clock,
        ),
        AuditLogHandlers(database),
        RegistryHandlers(database, base.clock),
        RunHandlers(RunInspector(database, runs.canceller, base.authenticator, Results(base.assets.blobs), base.clock)),
        *_money(base, database),
        JobHandlers(None if jobs is None else jobs.verbs, base.authenticator),
        DeploymentHandlers(Deployments(database, base.clock, base.observe) if jobs is None else jobs.deployments),
        InstallationHandlers(
            base.catalog, runs.partners, base.authenticator, _shown_settings(settings), database, base.clock
        ),
        _upkeep(settings, base, database, stack),
        RateLimitHandlers(database, base.catalog, base.clock),
        BudgetHandlers(database, base.catalog, runs.posting.channels, base.clock),
    )
    return AdminApi(bind_handlers(handlers), access.authorize, header_names(settings).request_id, base.observe)


def _money(base: Base, database: AnsweringDatabase) -> tuple[object, ...]:
    """What shows the ledger, and corrects what runs were charged."""
    return (
        RefundHandlers(Refunds(database, base.clock)),
        RerateHandlers(Rerates(database, base.clock, lambda: base.catalog.current)),
        LedgerHandlers(Accounts(database, base.clock)),
    )


def _people(settings: Settings, base: Base, runs: Runs, access: AdminAccess, stack: AsyncExitStack) -> Sequence[object]:
    """The handlers of people: their invitations, their sessions, and what they are and have."""
    database, sessions, cookies, clock = access.database, access.sessions, access.credentials.cookies, base.clock
    logins = RequestLimits(_LOGINS, clock)
    sign_on = _single_sign_on(settings, base, sessions, database, stack)
    invitations = invitations_of(settings, database, clock, runs.posting.mailer)
    accepting = AcceptingInvitations(database, sessions, clock, begins_sessions=settings.key_sign_in)
    return (
        SessionHandlers(database, sessions, cookies, logins, _oidc_method(sign_on), settings.key_sign_in),
        OidcHandlers(sign_on, cookies, logins, PREFIX),
        MemberHandlers(database, clock),
        PersonalKeyHandlers(database, clock),
        InvitationHandlers(database, invitations, accepting, access, cookies, logins, RequestLimits(_LETTERS, clock)),
    )


def _upkeep(settings: Settings, base: Base, database: AnsweringDatabase, stack: AsyncExitStack) -> UpkeepHandlers:
    files = FileAudits(database, base.assets.blobs, base.clock, base.observe)
    stack.push_async_callback(files.close)
    return UpkeepHandlers(files, secret_rotation(settings, base.secret, database, base.clock))


def _shown_settings(settings: Settings) -> list[SettingShown]:
    """Every setting with its value, except those that may be secrets; keys at providers are not among them."""
    shown: list[SettingShown] = []
    for option in fields(Settings):
        if option.name not in SETTINGS:
            continue
        setting, value = SETTINGS[option.name], getattr(settings, option.name)
        shown.append(
            {
                "name": setting.env,
                "value": _text(value) if option.repr else None,
                "default": _text(option.default),
                "is_set": value != option.default,
                "is_secret": not option.repr,
                "sentence": setting.sentence,
            }
        )
    return shown


def _text(value: object) -> str | None:
    """A value as it would be written in the environment; None for an empty one."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case tuple() | frozenset():
            parts = (":".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
            return ",".join(parts if isinstance(value, tuple) else sorted(parts)) or None
        case _:
            return str(value)


def _oidc_method(sign_on: SingleSignOn | None) -> OidcMethod | None:
    return None if sign_on is None else {"name": sign_on.name, "start_url": PREFIX + START}


def _single_sign_on(
    settings: Settings, base: Base, sessions: Sessions, database: AnsweringDatabase, stack: AsyncExitStack
) -> SingleSignOn | None:
    """What signs members in at the provider of the settings, where there is one; BadSettingError."""
    if settings.oidc_issuer is None:
        if not settings.key_sign_in:
            raise BadSettingError("FAIRLEAD_KEY_SIGN_IN: false needs FAIRLEAD_OIDC_ISSUER, or nobody could sign in")
        return None
    if settings.oidc_client_id is None:
        raise BadSettingError("FAIRLEAD_OIDC_CLIENT_ID: needed with FAIRLEAD_OIDC_ISSUER")
    provider = OidcProvider(
        settings.oidc_issuer,
        settings.oidc_client_id,
        settings.oidc_client_secret,
        settings.oidc_scopes,
        settings.oidc_groups_claim,
    )
    client = OidcClient(provider, settings.jwt_leeway_seconds)
    stack.push_async_callback(client.close)
    sealer = Sealer(base.secret)
    return SingleSignOn(
        client, settings.oidc_name, sealer, sessions, database, base.clock, base.observe, settings.oidc_group
    )
