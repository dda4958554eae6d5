"""The HTTP application: every API's handlers, with what each needs."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

import fairlead
from fairlead.api.application import Application, OperatorApplication
from fairlead.api.console import ConsoleHandlers
from fairlead.api.http.asgi import AsgiApplication
from fairlead.api.http.cross_origin import CrossOrigin
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import bind_handlers
from fairlead.api.openapi.handlers import DocumentHandlers, Served
from fairlead.api.operator import MetricsAccess, OperatorHandlers
from fairlead.api.registry.api import RegistryApi
from fairlead.api.registry.handlers import RegistryHandlers
from fairlead.api.router.estimates import EstimateHandlers
from fairlead.api.router.generations import RouterCallers
from fairlead.api.router.handlers import Handlers
from fairlead.api.router.provider_keys import ProviderKeyHandlers
from fairlead.api.router.queue import QueueHandlers
from fairlead.api.router.runs import RunHandler
from fairlead.api.router.usage import UsageHandlers
from fairlead.api.router.webhooks import WebhookHandlers
from fairlead.identity.links import ARCHIVE_PATH, Links
from fairlead.identity.secret_ring import DerivedKeys
from fairlead.observing.metrics import CONTENT_TYPE, Metrics
from fairlead.observing.place_meter import PlaceFigures
from fairlead.operations.assets.results import AssetReader
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.ledger.usage import UsageReader
from fairlead.operations.overview import Overview
from fairlead.operations.readiness import Readiness
from fairlead.operations.registry.archives import NodeArchives
from fairlead.operations.registry.publishing import Registry
from fairlead.operations.runs.places import RunPlaces
from fairlead.operations.runs.webhooks import DeliveryLog
from fairlead.server.admin import admin_api
from fairlead.server.base import Base, Jobs, brand, credential_reader, header_names, known_hosts
from fairlead.server.posting import HOUR_MS
from fairlead.server.runs import Runs
from fairlead.server.settings import SELF_HOSTED, Settings

_CONSOLE: Final = Path(fairlead.__file__).parent / "console"


def application(
    settings: Settings,
    base: Base,
    runs: Runs,
    jobs: Jobs | None,
    metrics: Metrics,
    readiness: Readiness,
    overview: Overview,
    stack: AsyncExitStack,
) -> AsgiApplication:
    """Make the application that answers every request."""
    places = RunPlaces(settings.run_places, settings.run_admissions, settings.run_wait_seconds)
    metrics.places.sources.append(lambda: PlaceFigures(places.waiting, places.refused, places.is_pressed))
    answering = Application(
        run=_run_handler(settings, base, runs, places),
        bind=bind_handlers(
            (
                _handlers(settings, base, runs),
                ProviderKeyHandlers(base.own_keys, _base_urls(settings)),
                _estimate_handlers(settings, runs),
                _queue_handlers(settings, base, runs),
                WebhookHandlers(DeliveryLog(base.database), runs.posting.webhook_secrets, _base_urls(settings)),
                UsageHandlers(UsageReader(base.database, base.clock)),
                base.assets.handlers,
                ConsoleHandlers(_CONSOLE),
                operator_handlers(settings, base.catalog, jobs, metrics, readiness, overview),
                DocumentHandlers(describe_served(settings)),
            )
        ),
        authorize=RouterCallers(base.authenticator, base.windows, credential_reader(settings)).caller,
        names=header_names(settings),
        observe=base.observe,
        others=(
            admin_api(settings, base, runs, jobs, stack),
            *(() if jobs is None else jobs.apis()),
            _registry(settings, base),
        ),
    )
    origins = settings.allowed_origins
    return CrossOrigin(answering, origins, header_names(settings)) if origins else answering


def operator_application(
    settings: Settings, base: Base, jobs: Jobs | None, metrics: Metrics, readiness: Readiness, overview: Overview
) -> AsgiApplication:
    """Make the application of a worker, which answers an operator's tools and no caller."""
    handlers = operator_handlers(settings, base.catalog, jobs, metrics, readiness, overview)
    return OperatorApplication(bind_handlers((handlers,)), header_names(settings), base.observe)


def operator_handlers(
    settings: Settings,
    catalog: CatalogKeeper,
    jobs: Jobs | None,
    metrics: Metrics,
    readiness: Readiness,
    overview: Overview,
) -> OperatorHandlers:
    """The handlers of the operator's routes."""

    async def page() -> tuple[bytes, str]:
        seen, problems = await asyncio.gather(overview.look(), readiness.figures())
        return metrics.page(msgspec.structs.replace(seen, problems=problems, cautions=catalog.cautions())), CONTENT_TYPE

    return OperatorHandlers(
        readiness.check,
        page,
        MetricsAccess(settings.metrics_networks, known_hosts(settings), settings.metrics_token),
        {} if jobs is None else {"engine_confinement": jobs.confinement},
    )


def describe_served(settings: Settings) -> Served:
    """The content of the OpenAPI document of an installation with these settings."""
    open_jobs = settings.jobs_surface == SELF_HOSTED and settings.static_token is None
    return Served(
        header_names(settings),
        fairlead.__version__,
        serves_workflows=settings.engine,
        has_open_jobs=open_jobs,
        registry_prefix=settings.registry_prefix,
    )


def _base_urls(settings: Settings) -> BaseUrls:
    return BaseUrls(settings.public_base_url, settings.trusted_proxies)


def _handlers(settings: Settings, base: Base, runs: Runs) -> Handlers:
    return Handlers(
        catalog=base.catalog,
        is_configured=runs.exchange.configured.__contains__,
        base_urls=_base_urls(settings),
    )


def _estimate_handlers(settings: Settings, runs: Runs) -> EstimateHandlers:
    return EstimateHandlers(
        estimator=runs.estimator,
        native_aliases=brand(settings).native_aliases,
        body_limit=settings.body_limit_mib * 1024 * 1024,
        body_values=settings.body_values,
    )


def _run_handler(settings: Settings, base: Base, runs: Runs, places: RunPlaces) -> RunHandler:
    return RunHandler(
        authenticator=base.authenticator,
        windows=base.windows,
        admitter=runs.admitter,
        executor=runs.executor,
        places=places,
        names=header_names(settings),
        native_aliases=brand(settings).native_aliases,
        credentials=credential_reader(settings),
        body_limit=settings.body_limit_mib * 1024 * 1024,
        body_values=settings.body_values,
        deadline_seconds=settings.deadline_seconds,
        base_urls=_base_urls(settings),
        keys_kept_ms=settings.idempotency_hours * HOUR_MS,
        now_ms=base.clock.now_ms,
    )


def _queue_handlers(settings: Settings, base: Base, runs: Runs) -> QueueHandlers:
    return QueueHandlers(
        admitter=runs.admitter,
        estimator=runs.estimator,
        collector=runs.collector,
        canceller=runs.canceller,
        watcher=runs.watcher,
        names=header_names(settings),
        base_urls=_base_urls(settings),
        check_webhook=runs.posting.webhooks.check_url,
        native_aliases=brand(settings).native_aliases,
        body_limit=settings.body_limit_mib * 1024 * 1024,
        body_values=settings.body_values,
        backlog=settings.queue_backlog,
        keys_kept_ms=settings.idempotency_hours * HOUR_MS,
        now_ms=base.clock.now_ms,
    )


def _registry(settings: Settings, base: Base) -> RegistryApi:
    blobs, links = base.assets.blobs, Links(DerivedKeys(base.secret, "archives of nodes"), ARCHIVE_PATH)
    archives = NodeArchives(
        base.database,
        blobs,
        links,
        base.clock,
        settings.storage_limits(),
        limit=settings.upload_limit_mib * 2**20,
    )
    handlers = RegistryHandlers(
        base.authenticator,
        base.windows,
        Registry(base.database, base.clock),
        archives,
        AssetReader(links, blobs, base.database, base.clock, store_links=base.assets.direct),
        _base_urls(settings),
        credential_reader(settings),
        settings.registry_prefix,
    )
    return RegistryApi(handlers, header_names(settings).request_id, base.observe, settings.registry_prefix)
