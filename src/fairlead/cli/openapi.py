"""`fairlead openapi`: the document that a server with these settings publishes, without a server."""

import click

from fairlead.api.openapi.document import openapi_document
from fairlead.cli.output import print_json
from fairlead.server.http_app import served
from fairlead.server.settings import read_settings


@click.command()
def openapi() -> None:
    """Print the OpenAPI document that `fairlead serve` publishes at /openapi.json."""
    print_json(openapi_document(served(read_settings())))
