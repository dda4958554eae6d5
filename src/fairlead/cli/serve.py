"""`fairlead serve` runs a server, `fairlead work` a worker, `fairlead simulate` the simulator.

`fairlead openapi` prints the document of a server.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import click
import uvicorn
import uvloop
from prometheus_client.registry import Collector

import fairlead
from fairlead.api.entrance import Entrance
from fairlead.cli.output import data_option, print_json
from fairlead.observing.observations import ServerReady
from fairlead.server.base import header_names
from fairlead.server.lifecycle import RunningServer, reload_on_hangup, running_server, running_worker
from fairlead.server.settings import Settings, read_settings
from fairlead.server.web_server import WebServer

_BACKLOG: Final = 8192
_KEEP_ALIVE_SECONDS: Final = 75
_SIMULATOR: Final = "fairlead_partners.simulator"


_pool_option = click.option(
    "--pool", "pools", multiple=True, metavar="NAME", help="A pool to work for, again for another. [default: default]"
)


@click.command()
@data_option
@click.option("--host", metavar="ADDRESS", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one. [default: 8080]")
@click.option("--catalog", metavar="DIR", help="A folder with more providers and models.")
@click.option("--local-partner/--no-local-partner", default=None, help="Whether to run the built-in partner.")
@click.option("--simulate", is_flag=True, default=None, help="Call every provider at the built-in simulator instead.")
@_pool_option
@click.option("--no-work", is_flag=True, help="Execute nothing that is queued: workers do (PostgreSQL).")
@click.option("--json", "as_json", is_flag=True, help="Print the address and the first key as one line of JSON.")
def serve(as_json: bool, no_work: bool, pools: tuple[str, ...], **given: object) -> None:
    """Run a server.

    The first start makes the data directory, the database, a workspace named `default` with an API key, and an operator
    with a key to sign in with. Both keys are shown once and saved in `first-key` and `first-operator-key`. Ctrl-C stops
    the server; runs under way are waited for.
    """
    if no_work and pools:
        raise click.UsageError("--no-work works for no pool, so there is none to name")
    settings = _settings(given, pools)
    uvloop.run(_serve(replace(settings, work_pools=()) if no_work else settings, as_json=as_json))


@click.command()
@data_option
@_pool_option
@click.option("--places", type=click.IntRange(1, 256), help="The queued runs, and the jobs, it executes at a time.")
@click.option("--catalog", metavar="DIR", help="A folder with more providers and models.")
@click.option("--operator-port", type=click.IntRange(0, 65535), help="Answer /healthz, /readyz and /metrics there.")
@click.option("--json", "as_json", is_flag=True, help="Print what it works for as one line of JSON.")
def work(as_json: bool, pools: tuple[str, ...], places: int | None, **given: object) -> None:
    """Run a worker, which executes queued runs and jobs of its pools and has no API.

    It shares a PostgreSQL database with servers, and needs their settings, secret, catalog and stored files. It opens
    no port, except the operator's where one is asked for. Ctrl-C stops it: runs under way are waited for, and jobs that
    do not end in time are handed over.
    """
    settings = _settings({**given, "queue_places": places, "engine_hosts": places}, pools)
    uvloop.run(_work(settings, as_json=as_json))


def _settings(given: Mapping[str, object], pools: tuple[str, ...]) -> Settings:
    """The settings with what was given on the command line; BadSettingError."""
    paths = {name: Path(str(given[name])) for name in ("data", "catalog") if given.get(name) is not None}
    return read_settings(os.environ, **{**given, **paths, "work_pools": ",".join(pools) or None})


@click.command()
def openapi() -> None:
    """Print the OpenAPI document that `fairlead serve` publishes at /openapi.json."""
    from fairlead.api.openapi.document import openapi_document  # noqa: PLC0415 -- a server is rarely asked for it
    from fairlead.server.http_app import describe_served  # noqa: PLC0415 -- same

    print_json(openapi_document(describe_served(read_settings())))


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", default=8190, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--task-seconds", type=float, metavar="SECONDS", help="How long submitted work takes. [default: 0.3]")
def simulate(host: str, port: int, task_seconds: float | None) -> None:
    """Run the partner simulator: every vendor's API at one address, without keys or costs.

    `fairlead serve --simulate` runs one of its own. docs/simulator.md says how faults are scripted.
    """
    further = [] if task_seconds is None else ["--task-seconds", str(task_seconds)]
    # The simulator is a program of its own that imports nothing of Fairlead; this process is replaced by it.
    os.execv(sys.executable, [sys.executable, "-m", _SIMULATOR, "--host", host, "--port", str(port), *further])  # noqa: S606 -- our own module


async def _serve(settings: Settings, *, as_json: bool) -> None:
    with _listen(settings.host, settings.port) as listener:
        settings = replace(settings, port=listener.getsockname()[1])  # the port that was free, where 0 was given
        url = f"http://{settings.host}:{settings.port}"
        announce = partial(_announce, settings=settings, url=url, as_json=as_json)
        await _run(settings, [listener], partial(running_server, settings), announce)


async def _work(settings: Settings, *, as_json: bool) -> None:
    with ExitStack() as stack:
        listeners: list[socket.socket] = []
        if settings.operator_port is not None:
            listeners.append(stack.enter_context(_listen(settings.host, settings.operator_port)))
        url = f"http://{settings.host}:{listeners[0].getsockname()[1]}" if listeners else None
        announce = partial(_announce_worker, settings=settings, url=url, as_json=as_json)
        await _run(settings, listeners, partial(running_worker, settings), announce)


class _Running(Protocol):
    """Runs a server or a worker, with further meters for its metrics."""

    def __call__(self, *, meters: Sequence[Collector]) -> AbstractAsyncContextManager[RunningServer]:
        """Start it, and stop it at the end."""
        ...


async def _run(
    settings: Settings,
    listeners: Sequence[socket.socket],
    running: _Running,
    announce: Callable[[RunningServer], None],
) -> None:
    """Run what `running` starts, behind some open ports, until it is asked to stop."""
    names, is_secure = header_names(settings), (settings.public_base_url or "").startswith("https://")
    entrance = Entrance(names)
    web = WebServer(_config(entrance), settings.silence_seconds, settings.connections, names, is_secure=is_secure)
    with web.capture_signals():
        serving = asyncio.create_task(web.serve(sockets=list(listeners)))
        try:
            await _start(entrance, web, serving, running, announce)
        finally:
            web.should_exit = True
            await serving


async def _start(
    entrance: Entrance,
    web: WebServer,
    serving: asyncio.Task[None],
    running: _Running,
    announce: Callable[[RunningServer], None],
) -> None:
    """Start the application behind the open port, and wait for the stop, which may come during the start."""
    starting = asyncio.current_task()

    def give_up(_: object) -> None:
        if web.drain is None and starting is not None:
            starting.cancel()

    serving.add_done_callback(give_up)
    try:
        async with running(meters=[web.meter]) as server:
            reload_on_hangup(server)
            entrance.open(server.application)
            web.config.loaded_app = server.application  # new connections need no entrance
            web.drain = server.drain
            announce(server)
            await asyncio.wait([serving])
    except asyncio.CancelledError:
        if not serving.done() or web.drain is not None:
            raise
    finally:
        serving.remove_done_callback(give_up)  # a failed start ends the web server, and must not be cancelled as well


def _config(application: Entrance) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http="httptools",
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=_BACKLOG, reuse_port=False)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # the address is printed in front of it already
        told = f"cannot listen on {host}:{port}: {reason} (FAIRLEAD_HOST, FAIRLEAD_PORT)"
        raise click.ClickException(told) from error


def _announce_worker(server: RunningServer, settings: Settings, url: str | None, *, as_json: bool) -> None:
    """Say on standard output that the worker is ready, and for which pools."""
    pools = settings.work_pools
    if as_json:
        click.echo(json.dumps({"pools": pools, "url": url}))
    else:
        told = f"; an operator's tools are answered at {url}" if url else ""
        click.echo(f"Fairlead {fairlead.__version__} works for {', '.join(pools)}{told}")
    server.observe(ServerReady(url, pools))


def _announce(server: RunningServer, settings: Settings, url: str, *, as_json: bool) -> None:
    """Say on standard output that the server is ready, and show the keys that were just made."""
    made = server.first_keys
    key, operator_key = (None if one is None else one.text for one in (made.api, made.operator))
    if as_json:
        simulator = {} if server.simulator is None else {"simulator": server.simulator}
        click.echo(json.dumps({"url": url, "first_key": key, "first_operator_key": operator_key, **simulator}))
    else:
        lines = [f"Fairlead {fairlead.__version__} listens on {url}"]
        if key is not None:
            lines.append(f"API key (shown once, saved in {settings.data / 'first-key'}): {key}")
        if operator_key is not None:
            saved = settings.data / "first-operator-key"
            lines.append(f"Operator key, to sign in with (shown once, saved in {saved}): {operator_key}")
        if server.simulator is not None:
            lines.append(f"Every provider is simulated at {server.simulator}")
        click.echo("\n".join(lines))  # at once: who reads the address may go on
    server.observe(ServerReady(url, settings.work_pools))
