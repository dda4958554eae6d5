"""`fairlead serve`: run a server. `fairlead openapi` prints its document, `fairlead simulate` runs the simulator."""

import asyncio
import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import uvicorn
import uvloop

import fairlead
from fairlead.api.entrance import Entrance
from fairlead.cli.output import data_option, print_json
from fairlead.observing.observations import ServerReady
from fairlead.server.base import header_names
from fairlead.server.lifecycle import RunningServer, reload_on_hangup, running_server
from fairlead.server.settings import Settings, read_settings
from fairlead.server.web import WebServer

_BACKLOG: Final = 8192
_KEEP_ALIVE_SECONDS: Final = 75
_SIMULATOR: Final = "fairlead_partners.simulator"


@click.command()
@data_option
@click.option("--host", metavar="ADDRESS", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one. [default: 8080]")
@click.option("--catalog", metavar="DIR", help="A folder with more providers and models.")
@click.option("--local-partner/--no-local-partner", default=None, help="Whether to run the built-in partner.")
@click.option("--simulate", is_flag=True, default=None, help="Call every provider at the built-in simulator instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the address and the first key as one line of JSON.")
def serve(as_json: bool, **given: Any) -> None:
    """Run a server.

    The first start makes the data directory, the database, a workspace named `default` with an API key, and an operator
    with a key to sign in with. Both keys are shown once and saved in `first-key` and `first-operator-key`. Ctrl-C stops
    the server; runs under way are waited for.
    """
    given = {
        name: Path(value) if name in ("data", "catalog") and value is not None else value
        for name, value in given.items()
    }
    uvloop.run(_serve(read_settings(**given), as_json=as_json))


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

    `fairlead serve --simulate` runs one of its own. How faults are scripted is in docs/simulator.md.
    """
    further = [] if task_seconds is None else ["--task-seconds", str(task_seconds)]
    # The simulator is a program of its own and imports nothing of ours; this process becomes it.
    os.execv(sys.executable, [sys.executable, "-m", _SIMULATOR, "--host", host, "--port", str(port), *further])  # noqa: S606 -- our own module


async def _serve(settings: Settings, *, as_json: bool) -> None:
    with _listen(settings) as listener:
        settings = replace(settings, port=listener.getsockname()[1])  # the port that was free, where 0 was given
        entrance = Entrance(header_names(settings))
        web = WebServer(_config(entrance), settings.silence_seconds, settings.connections)
        with web.capture_signals():
            serving = asyncio.create_task(web.serve(sockets=[listener]))
            try:
                await _start(settings, entrance, web, serving, as_json=as_json)
            finally:
                web.should_exit = True
                await serving


async def _start(
    settings: Settings, entrance: Entrance, web: WebServer, serving: asyncio.Task[None], *, as_json: bool
) -> None:
    """Start the application behind the open port, and wait for the stop, which may come during the start."""
    starting = asyncio.current_task()

    def give_up(_: object) -> None:
        if web.drain is None and starting is not None:
            starting.cancel()

    serving.add_done_callback(give_up)
    try:
        async with running_server(settings) as server:
            reload_on_hangup(server)
            entrance.open(server.application)
            web.config.loaded_app = server.application  # new connections need no entrance
            web.drain = server.drain
            _announce(server, settings, f"http://{settings.host}:{settings.port}", as_json=as_json)
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


def _listen(settings: Settings) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port), backlog=_BACKLOG, reuse_port=False)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # the address stands in front of it already
        told = f"cannot listen on {settings.host}:{settings.port}: {reason} (FAIRLEAD_HOST, FAIRLEAD_PORT)"
        raise click.ClickException(told) from error


def _announce(server: RunningServer, settings: Settings, url: str, *, as_json: bool) -> None:
    """Say on standard output that the server is ready, and show the keys that were just made."""
    made = server.first_keys
    key, operator_key = (None if one is None else one.text for one in (made.api, made.operator))
    if as_json:
        simulator = {} if server.simulator is None else {"simulator": server.simulator}
        click.echo(json.dumps({"url": url, "first_key": key, "first_operator_key": operator_key, **simulator}))
    else:
        click.echo(f"Fairlead {fairlead.__version__} listens on {url}")
        if key is not None:
            click.echo(f"API key (shown once, saved in {settings.data / 'first-key'}): {key}")
        if operator_key is not None:
            saved = settings.data / "first-operator-key"
            click.echo(f"Operator key, to sign in with (shown once, saved in {saved}): {operator_key}")
        if server.simulator is not None:
            click.echo(f"Every provider is simulated at {server.simulator}")
    server.observe(ServerReady(url))
