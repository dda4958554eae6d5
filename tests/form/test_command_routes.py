"""What an operator can do by command can be done over HTTP: each command has its routes, or a reason why not (A-01)."""

import ast
import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import click
import pytest

from fairlead.api.admin.api import ROUTES
from fairlead.cli import commands
from form.sources import DOCS, PACKAGE

pytestmark = pytest.mark.req("A-01")

_ROUTES: Final = MappingProxyType(
    {
        "alert-channels create": ("POST /workspaces/{workspace}/alert-channels",),
        "alert-channels list": ("GET /workspaces/{workspace}/alert-channels",),
        "alert-channels test": ("POST /workspaces/{workspace}/alert-channels/{channel_id}/test",),
        "alert-channels delete": ("DELETE /workspaces/{workspace}/alert-channels/{channel_id}",),
        "alert-channels log": ("GET /workspaces/{workspace}/alerts",),
        "audit": ("GET /books", "POST /stored-files/audit", "GET /stored-files/audit"),
        "budgets create": ("POST /workspaces/{workspace}/budgets",),
        "budgets list": ("GET /workspaces/{workspace}/budgets",),
        "budgets set": ("PATCH /workspaces/{workspace}/budgets/{budget_id}",),
        "budgets add": ("POST /workspaces/{workspace}/budgets/{budget_id}/additions",),
        "budgets withdraw": ("DELETE /workspaces/{workspace}/budgets/{budget_id}/additions/{addition_id}",),
        "budgets delete": ("DELETE /workspaces/{workspace}/budgets/{budget_id}",),
        "catalog check": ("POST /catalog/reload", "GET /catalog"),
        "catalog list": ("GET /models",),
        "catalog show": ("GET /models/{provider}/{model}",),
        "catalog prices": ("GET /prices",),
        "deployments create": ("POST /workspaces/{workspace}/deployments",),
        "deployments set": ("PATCH /workspaces/{workspace}/deployments/{deployment_id}",),
        "deployments list": ("GET /workspaces/{workspace}/deployments",),
        "deployments release": ("POST /workspaces/{workspace}/deployments/{deployment_id}/releases",),
        "deployments releases": ("GET /workspaces/{workspace}/deployments/{deployment_id}/releases",),
        "deployments stop": ("POST /workspaces/{workspace}/deployments/{deployment_id}/stop",),
        "deployments start": ("POST /workspaces/{workspace}/deployments/{deployment_id}/start",),
        "deployments delete": ("DELETE /workspaces/{workspace}/deployments/{deployment_id}",),
        "keys create": ("POST /workspaces/{workspace}/keys",),
        "keys list": ("GET /workspaces/{workspace}/keys",),
        "keys set": ("PATCH /workspaces/{workspace}/keys/{key_id}",),
        "keys rotate": ("POST /workspaces/{workspace}/keys/{key_id}/rotate",),
        "keys revoke": ("DELETE /workspaces/{workspace}/keys/{key_id}",),
        "ledger archives": ("GET /archives",),
        "ledger show": ("GET /workspaces/{workspace}/ledger",),
        "ledger export": ("GET /workspaces/{workspace}/ledger/export", "GET /ledger/export"),
        "members create": ("POST /members",),
        "members list": ("GET /members",),
        "members set": ("PATCH /members/{member_id}",),
        "members delete": ("DELETE /members/{member_id}",),
        "members invite": ("POST /workspaces/{workspace}/invitations",),
        "members invitations": ("GET /workspaces/{workspace}/invitations",),
        "members withdraw": ("DELETE /workspaces/{workspace}/invitations/{invitation_id}",),
        "members grant": ("POST /workspaces/{workspace}/members",),
        "members remove": ("DELETE /workspaces/{workspace}/members/{member_id}",),
        "members key": ("POST /members/{member_id}/keys",),
        "members keys": ("GET /members/{member_id}",),
        "members rotate": ("POST /members/{member_id}/keys/{key_id}/rotate",),
        "members revoke": ("DELETE /members/{member_id}/keys/{key_id}",),
        "members log": ("GET /audit-log",),
        "provider-keys set": ("PUT /workspaces/{workspace}/provider-keys/{provider}",),
        "provider-keys list": ("GET /workspaces/{workspace}/provider-keys",),
        "provider-keys delete": ("DELETE /workspaces/{workspace}/provider-keys/{provider}",),
        "providers verified": ("GET /models",),
        "rate-limits set": ("POST /workspaces/{workspace}/rate-limits",),
        "rate-limits list": ("GET /workspaces/{workspace}/rate-limits",),
        "rate-limits delete": ("DELETE /workspaces/{workspace}/rate-limits/{limit_id}",),
        "registry ban": ("PUT /registry-bans/{kind}/{entry_id}",),
        "registry unban": ("DELETE /registry-bans/{kind}/{entry_id}",),
        "registry acts": ("GET /registry-acts",),
        "runs list": ("GET /runs",),
        "runs refund": ("POST /runs/{run_id}/refund", "POST /refunds"),
        "runs rerate": ("POST /runs/{run_id}/rerate", "POST /rerates"),
        "runs show": ("GET /runs/{run_id}",),
        "secret list": ("GET /secrets",),
        "secret rotate": ("POST /secrets/rotate",),
        "secret reseal": ("POST /secrets/reseal",),
        "secret finish": ("POST /secrets/finish",),
        "usage": ("GET /usage",),
        "webhooks secret": (
            "GET /workspaces/{workspace}/webhook-secret",
            "POST /workspaces/{workspace}/webhook-secret/rotate",
        ),
        "webhooks log": ("GET /runs/{run_id}",),
        "workspaces create": ("POST /workspaces",),
        "workspaces list": ("GET /workspaces",),
        "workspaces change": ("PATCH /workspaces/{workspace}",),
        "workspaces credit": ("POST /workspaces/{workspace}/credit",),
        "workspaces suspend": ("POST /workspaces/{workspace}/suspend",),
        "workspaces resume": ("POST /workspaces/{workspace}/resume",),
        "workspaces delete": ("DELETE /workspaces/{workspace}",),
        "workspaces restore": ("POST /workspaces/{workspace}/restore",),
        "workspaces storage": ("GET /workspaces",),
        "workspaces limit-storage": ("PATCH /workspaces/{workspace}",),
    }
)
_WITHOUT: Final = MappingProxyType(
    {
        "backup": "writes files on the machine it is called on",
        "blobs adopt": "is for a server that looks at the wrong store; it would have to be believed by all others",
        "blobs show": "looks at a store before there is a server; /readyz and /metrics tell of that of one",
        "archive": "writes files on the machine it is called on; GET /archives lists them",
        "catalog snapshots": "writes files of the source, of what the schema routes answer",
        "demo": "starts a server",
        "doctor": "looks at a machine on which no server may run; /readyz, /settings and /providers tell of one",
        "migrate-data": "fills a database before there is a server on it",
        "migrate": "prepares a database before there is a server",
        "openapi": "is GET /openapi.json",
        "providers verify": "makes runs in a process of its own; GET /models has what they have shown",
        "restore": "makes an installation before there is a server",
        "serve": "starts a server",
        "simulate": "starts a program of its own",
        "work": "starts a worker",
        "workflow check": "needs no server; POST /api/prompt checks at one",
        "workflow nodes": "needs no server; GET /api/object_info lists those of one",
        "workflow run": "needs no server; POST /api/prompt runs at one",
    }
)
"""Commands that no route does the work of, and why."""
_OF_THE_MACHINE: Final = frozenset({"database", "doctor", "mistakes"})
"""Modules of commands that open a database, word its errors, or look at it before there is a server."""


def test_every_command_has_a_route_or_a_reason() -> None:
    """Neither a command that nobody has thought of, nor one that is no longer a command."""
    assert sorted(_commands("", commands)) == sorted({**_ROUTES, **_WITHOUT})


def test_routes_of_commands_are_there() -> None:
    """Each is a route of the administration API, by its method and path."""
    known = {f"{route.method} {route.path}" for route in ROUTES}
    assert {name: set(routes) - known for name, routes in _ROUTES.items() if set(routes) - known} == {}


def test_page_has_every_command_in_its_table() -> None:
    """docs/administration.md says the same."""
    page = (DOCS / "administration.md").read_text("utf-8")
    table = page.partition("## What the commands do")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = set[str]()
    for row in rows:
        first, *others = re.findall(r"`([a-z -]+)`", row)
        group = first.split(" ")[0] if " " in first else ""
        alone = {"demo", "serve", "simulate", "work", "doctor", "migrate", "migrate-data"}
        listed |= {first, *(other if other in alone else f"{group} {other}" for other in others)}
    assert listed == {*_ROUTES, *_WITHOUT}


def test_commands_call_operations_and_no_storage() -> None:
    """A command opens a database and hands it to an operation; what it does there is the operation's alone."""
    verbs = [
        (path.name, alias.name)
        for path in sorted((PACKAGE / "cli").glob("*.py"))
        if path.stem not in _OF_THE_MACHINE
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairlead.storage")
        for alias in node.names
        if alias.name not in ("Database", "BlobsUnavailableError")
    ]
    assert verbs == []


def _commands(name: str, command: click.Command) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for part in command.list_commands(context):
        inner = command.get_command(context, part)
        if inner is not None and not inner.hidden:
            yield from _commands(f"{name} {part}".strip(), inner)
