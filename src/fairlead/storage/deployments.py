"""Deployments and their releases as rows.

A deployment changes only with its row locked. A deleted one keeps its row while jobs name it, and is found only in
order to end those jobs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.deployments import (
    Deployment,
    DeploymentEvent,
    DeploymentFaultError,
    DeploymentNotFound,
    DeploymentState,
    PackSet,
    Placement,
    Release,
    ReleaseState,
    TokenKinds,
    TooManyDeployments,
    after,
)
from fairlead.domain.jobs.states import LIVE, JobTransition, states_before
from fairlead.storage.db.tables import deployments, jobs, releases, workspaces
from fairlead.storage.work.table import in_state

_UNFINISHED: Final = sorted(state.value for state in states_before(JobTransition.ABANDON))
"""The states in which a job of a deleted deployment must still be ended, or requested to end."""
_SERVING: Final = and_(releases.c.deployment_id == deployments.c.id, releases.c.version == deployments.c.serving)
_PACKS: Final = func.coalesce(releases.c.copies, releases.c.node_packs).label("packs")
"""What a release is executed with."""
_DEPLOYMENTS: Final = select(
    deployments.c.id, deployments.c.workspace_id, deployments.c.name, deployments.c.state, deployments.c.reason,
    deployments.c.serving, _PACKS, deployments.c.last_release, deployments.c.created_at,
    deployments.c.updated_at, deployments.c.token_kinds, deployments.c.pool,
).select_from(deployments.outerjoin(releases, _SERVING))  # fmt: skip
_RELEASES: Final = select(
    releases.c.deployment_id, releases.c.version, releases.c.state, releases.c.node_packs.label("packs"),
    releases.c.nodes, releases.c.reason, releases.c.created_at, releases.c.settled_at,
)  # fmt: skip
_IS_THERE: Final = deployments.c.deleted_at.is_(None)
# Queries of every second repeat the conditions of the partial indexes literally: with parameters no planner would use
# them.
_IS_UNSETTLED: Final = or_(
    *(
        deployments.c.state == literal_column(f"'{state.value}'")
        for state in (DeploymentState.NOT_READY, DeploymentState.UNAVAILABLE)
    )
)
_IS_PREPARING: Final = releases.c.state == literal_column(f"'{ReleaseState.PREPARING.value}'")
_TO_PREPARE: Final = (
    _RELEASES.join(deployments, deployments.c.id == releases.c.deployment_id)
    .where(_IS_PREPARING, _IS_THERE, deployments.c.state != DeploymentState.STOPPED.value)
    .order_by(releases.c.created_at)
    .limit(bindparam("most"))
)
_TO_PROBE: Final = (
    _DEPLOYMENTS.where(_IS_THERE, _IS_UNSETTLED, deployments.c.serving.is_not(None))
    .order_by(deployments.c.updated_at)
    .limit(bindparam("most"))
)
_LAST_CHANGE: Final = select(func.count(), func.coalesce(func.max(deployments.c.updated_at), 0)).select_from(
    deployments
)
_encode: Final = msgspec.json.Encoder().encode


class Moved(msgspec.Struct, frozen=True):
    """The change of a deployment by an event."""

    state: DeploymentState
    reason: str | None


def create_deployment(
    connection: Connection,
    new: Mapping[str, str],
    packs: PackSet,
    now: int,
    most: int,
    token_kinds: TokenKinds = None,
    pool: str | None = None,
) -> Deployment:
    """Make a deployment of an id, a workspace and a name, with its first release; DeploymentFaultError.

    The workspace is locked, so that what others make in the same moment is counted too.
    """
    owner = select(workspaces.c.id).where(workspaces.c.id == new["workspace_id"])
    connection.execute(owner.with_for_update()).scalar_one()
    is_its = and_(deployments.c.workspace_id == new["workspace_id"], _IS_THERE)
    if connection.execute(select(func.count()).select_from(deployments).where(is_its)).scalar_one() >= most:
        raise DeploymentFaultError(TooManyDeployments("deployments of the workspace", most))
    state = DeploymentState.NOT_READY.value
    times = {"created_at": now, "updated_at": now}
    kinds = None if token_kinds is None else _encode(token_kinds).decode()
    values = {**new, **times, "state": state, "last_release": 1, "token_kinds": kinds, "pool": pool}
    connection.execute(insert(deployments).values(values))
    _insert_release(connection, new["id"], 1, packs, now)
    return get_deployment(connection, new["workspace_id"], new["id"])


def get_deployment(connection: Connection, workspace_id: str, deployment_id: str) -> Deployment:
    """A deployment of a workspace; DeploymentFaultError where it has none of this id."""
    row = connection.execute(_DEPLOYMENTS.where(_is(workspace_id, deployment_id))).mappings().first()
    if row is None:
        raise DeploymentFaultError(DeploymentNotFound(deployment_id))
    return _deployment(row)


def list_deployments(connection: Connection, workspace_id: str, limit: int) -> Sequence[Deployment]:
    """The deployments of a workspace, the newest first."""
    of_workspace = _DEPLOYMENTS.where(deployments.c.workspace_id == workspace_id, _IS_THERE)
    rows = connection.execute(of_workspace.order_by(deployments.c.created_at.desc(), deployments.c.id).limit(limit))
    return [_deployment(row) for row in rows.mappings()]


def publish_release(
    connection: Connection, workspace_id: str, deployment_id: str, packs: PackSet, now: int, most: int
) -> Release:
    """Add a release to a deployment, which starts it where it is stopped; DeploymentFaultError."""
    deployment = _lock_existing(connection, workspace_id, deployment_id)
    if deployment.last_release >= most:
        raise DeploymentFaultError(TooManyDeployments("releases of the deployment", most))
    version = deployment.last_release + 1
    _insert_release(connection, deployment_id, version, packs, now)
    _move(connection, deployment, DeploymentEvent.START, now, last_release=version)
    return _releases(connection, and_(releases.c.deployment_id == deployment_id, releases.c.version == version))[0]


def list_releases(connection: Connection, workspace_id: str, deployment_id: str) -> Sequence[Release]:
    """The releases of a deployment, the newest first; DeploymentFaultError."""
    get_deployment(connection, workspace_id, deployment_id)
    return _releases(connection, releases.c.deployment_id == deployment_id)


def stop_deployment(connection: Connection, workspace_id: str, deployment_id: str, now: int) -> Deployment:
    """Have a deployment take no more jobs; those it has go on. DeploymentFaultError."""
    _move(connection, _lock_existing(connection, workspace_id, deployment_id), DeploymentEvent.STOP, now)
    return get_deployment(connection, workspace_id, deployment_id)


def start_deployment(connection: Connection, workspace_id: str, deployment_id: str, now: int) -> Deployment:
    """Prepare a stopped deployment again, with a release that failed where none serves. DeploymentFaultError."""
    deployment = _lock_existing(connection, workspace_id, deployment_id)
    if deployment.state is DeploymentState.STOPPED and deployment.serving is None:
        newest = and_(releases.c.deployment_id == deployment_id, releases.c.version == deployment.last_release)
        restarted = {"state": ReleaseState.PREPARING.value, "reason": None, "settled_at": None}
        connection.execute(update(releases).where(newest).values(restarted))
    _move(connection, deployment, DeploymentEvent.START, now)
    return get_deployment(connection, workspace_id, deployment_id)


def change_pool(
    connection: Connection, workspace_id: str, deployment_id: str, pool: str | None, now: int
) -> Deployment:
    """Give a deployment a pool of its own, or none, for the jobs that it takes from now on. DeploymentFaultError."""
    _lock_existing(connection, workspace_id, deployment_id)
    changes = {"pool": pool, "updated_at": now}
    connection.execute(update(deployments).where(deployments.c.id == deployment_id).values(changes))
    return get_deployment(connection, workspace_id, deployment_id)


def delete_deployment(connection: Connection, workspace_id: str, deployment_id: str, now: int) -> None:
    """Delete a deployment; callers of `abandoned_jobs` end its jobs. DeploymentFaultError."""
    _lock_existing(connection, workspace_id, deployment_id)
    gone = {"deleted_at": now, "updated_at": now}
    connection.execute(update(deployments).where(deployments.c.id == deployment_id).values(gone))


# What is to be done for deployments.


def releases_to_prepare(connection: Connection, limit: int) -> Sequence[Release]:
    """Releases that are to be prepared, the oldest first, of deployments that are not stopped."""
    return [_release(row) for row in connection.execute(_TO_PREPARE, {"most": limit}).mappings()]


def deployments_to_probe(connection: Connection, limit: int) -> Sequence[Deployment]:
    """Deployments that have a release which could serve, but are not ready."""
    return [_deployment(row) for row in connection.execute(_TO_PROBE, {"most": limit}).mappings()]


def last_change(connection: Connection) -> tuple[int, int]:
    """A stamp that changes when a deployment changes: how many there are, and when one changed last (ms)."""
    row = connection.execute(_LAST_CHANGE).one()
    return row[0], row[1]


def ready_deployments(connection: Connection, limit: int) -> Sequence[Deployment]:
    """Deployments whose serving release names node packs, and takes jobs."""
    is_ready = deployments.c.state == DeploymentState.READY.value
    statement = _DEPLOYMENTS.where(_IS_THERE, is_ready, _PACKS.element.is_not(None)).limit(limit)
    return [_deployment(row) for row in connection.execute(statement).mappings()]


def settle_release(
    connection: Connection,
    deployment_id: str,
    version: int,
    nodes: int | None,
    reason: str | None,
    now: int,
    copies: Sequence[str] | None = None,
) -> Moved | None:
    """Record that a release is prepared, or why it cannot be; None where that was known, or its deployment was deleted.

    `copies` are those of its packs.
    """
    deployment = _lock(connection, deployments.c.id == deployment_id)
    if deployment is None:
        return None
    state = ReleaseState.PREPARED if reason is None else ReleaseState.FAILED
    preparing = and_(releases.c.deployment_id == deployment_id, releases.c.version == version, _IS_PREPARING)
    kept = None if copies is None else _encode(copies).decode()
    settled = {"state": state.value, "nodes": nodes, "reason": reason, "settled_at": now, "copies": kept}
    if connection.execute(update(releases).where(preparing).values(settled)).rowcount == 0:
        return None
    if reason is not None:
        # While an earlier release serves, or it is checked whether it can, a later one that failed changes nothing.
        return _move(connection, deployment, DeploymentEvent.FAIL, now, reason) if deployment.serving is None else None
    serving = max(version, deployment.serving or 0)
    return _move(connection, deployment, DeploymentEvent.PREPARE, now, serving=serving)


def move_deployment(
    connection: Connection, placement: Placement, event: DeploymentEvent, reason: str | None, now: int
) -> Moved | None:
    """Apply an event to a deployment while a release serves there; None where that changes nothing."""
    deployment = _lock(connection, deployments.c.id == placement.deployment_id)
    if deployment is None or deployment.serving != placement.release_version:
        return None
    return _move(connection, deployment, event, now, reason)


def note_waiting(connection: Connection, deployment_id: str, reason: str, now: int) -> None:
    """Record why a deployment is not ready yet, without changing its state."""
    is_waiting = and_(deployments.c.id == deployment_id, _IS_UNSETTLED, deployments.c.reason.is_distinct_from(reason))
    connection.execute(update(deployments).where(is_waiting, _IS_THERE).values(reason=reason, updated_at=now))


def deleted_deployments(connection: Connection, limit: int) -> Sequence[tuple[str, str]]:
    """Deployments that were deleted, and whose jobs may still go on: their ids and those of their workspaces."""
    statement = (
        select(deployments.c.id, deployments.c.workspace_id)
        .where(deployments.c.deleted_at.is_not(None), deployments.c.cleared_at.is_(None))
        .order_by(deployments.c.deleted_at)
        .limit(limit)
    )
    return [(row[0], row[1]) for row in connection.execute(statement)]


def abandoned_jobs(connection: Connection, workspace_id: str, deployment_id: str, limit: int) -> Sequence[str]:
    """Jobs of a deployment that are to be ended because it was deleted."""
    statement = select(jobs.c.id).where(
        jobs.c.workspace_id == workspace_id,
        in_state(jobs, LIVE),
        jobs.c.state.in_(_UNFINISHED),
        jobs.c.deployment_id == deployment_id,
    )
    return list(connection.execute(statement.limit(limit)).scalars())


def clear_deployment(connection: Connection, deployment_id: str, now: int) -> None:
    """Note that no job of a deleted deployment is left that was to be ended."""
    connection.execute(update(deployments).where(deployments.c.id == deployment_id).values(cleared_at=now))


def forget_deployments(connection: Connection, limit: int) -> int:
    """Remove deleted deployments that no job names any more, with their releases; returns how many."""
    named = exists().where(jobs.c.workspace_id == deployments.c.workspace_id, jobs.c.deployment_id == deployments.c.id)
    statement = select(deployments.c.id).where(
        deployments.c.deleted_at.is_not(None), deployments.c.cleared_at.is_not(None), ~named
    )
    ids = list(connection.execute(statement.limit(limit)).scalars())
    if ids:
        connection.execute(delete(releases).where(releases.c.deployment_id.in_(ids)))
        connection.execute(delete(deployments).where(deployments.c.id.in_(ids)))
    return len(ids)


def _is(workspace_id: str, deployment_id: str) -> ColumnElement[bool]:
    return and_(deployments.c.id == deployment_id, deployments.c.workspace_id == workspace_id, _IS_THERE)


def _insert_release(connection: Connection, deployment_id: str, version: int, packs: PackSet, now: int) -> None:
    kept = None if packs is None else _encode(packs).decode()
    values = {"deployment_id": deployment_id, "version": version, "node_packs": kept, "created_at": now}
    connection.execute(insert(releases).values(**values, state=ReleaseState.PREPARING.value))


def _lock_existing(connection: Connection, workspace_id: str, deployment_id: str) -> Deployment:
    """A deployment that nobody else changes before this transaction has ended; DeploymentFaultError."""
    found = _lock(connection, _is(workspace_id, deployment_id))
    if found is None:
        raise DeploymentFaultError(DeploymentNotFound(deployment_id))
    return found


def _lock(connection: Connection, condition: ColumnElement[bool]) -> Deployment | None:
    statement: Select[*tuple[object, ...]] = _DEPLOYMENTS.where(condition, _IS_THERE).with_for_update(of=deployments)
    row = connection.execute(statement).mappings().first()
    return None if row is None else _deployment(row)


def _move(
    connection: Connection,
    deployment: Deployment,
    event: DeploymentEvent,
    now: int,
    reason: str | None = None,
    **changes: int,
) -> Moved | None:
    """Apply the table of states, and change further columns; None where nothing changes."""
    state = after(deployment.state, event)
    if state is deployment.state and not changes:
        return None
    kept = deployment.reason if state is deployment.state else reason
    values = {"state": state.value, "reason": kept, "updated_at": now, **changes}
    connection.execute(update(deployments).where(deployments.c.id == deployment.id).values(values))
    return Moved(state, kept)


def _releases(connection: Connection, condition: ColumnElement[bool]) -> Sequence[Release]:
    rows = connection.execute(_RELEASES.where(condition).order_by(releases.c.version.desc())).mappings()
    return [_release(row) for row in rows]


def _deployment(row: Mapping[Any, Any]) -> Deployment:
    kinds = row["token_kinds"]
    read = {
        "state": DeploymentState(row["state"]),
        "packs": packs_of(row["packs"]),
        "token_kinds": None if kinds is None else msgspec.json.decode(kinds, type=tuple[TokenKind, ...]),
    }
    return Deployment(**{**row, **read})


def _release(row: Mapping[Any, Any]) -> Release:
    return Release(**{**row, "state": ReleaseState(row["state"]), "packs": packs_of(row["packs"])})


def packs_of_release(connection: Connection, deployment_id: str, version: int) -> PackSet:
    """The node packs of a release; those of one whose deployment was deleted, too."""
    release = and_(releases.c.deployment_id == deployment_id, releases.c.version == version)
    return packs_of(connection.execute(select(_PACKS).where(release)).scalar())


def copies_in_use(connection: Connection) -> frozenset[str]:
    """The copies of packs that releases name."""
    rows = connection.execute(select(releases.c.copies).where(releases.c.copies.is_not(None)).distinct()).scalars()
    return frozenset(name for kept in rows for name in packs_of(kept) or ())


def packs_of(kept: str | None) -> PackSet:
    """A set of packs, from its stored form."""
    return None if kept is None else msgspec.json.decode(kept, type=tuple[str, ...])
