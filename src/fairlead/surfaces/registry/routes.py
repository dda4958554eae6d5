"""The registry's routes, and nothing else: methods, paths, and the handler that answers."""

from typing import Final, NamedTuple


class Route(NamedTuple):
    """One route; `handler` is a method of `RegistryHandlers`."""

    method: str
    path: str
    handler: str


ROUTES: Final = (
    Route("GET", "/publishers", "list_publishers"),
    Route("POST", "/publishers", "create_publisher"),
    Route("GET", "/publishers/{publisher_id}", "show_publisher"),
    Route("PUT", "/publishers/{publisher_id}", "change_publisher"),
    Route("DELETE", "/publishers/{publisher_id}", "delete_publisher"),
    Route("GET", "/publishers/{publisher_id}/nodes", "list_nodes_of_publisher"),
    Route("POST", "/publishers/{publisher_id}/nodes", "create_node"),
    Route("DELETE", "/publishers/{publisher_id}/nodes/{node_id}", "delete_node"),
    Route("POST", "/publishers/{publisher_id}/nodes/{node_id}/versions", "publish_version"),
    Route("GET", "/nodes", "list_nodes"),
    Route("GET", "/nodes/{node_id}", "show_node"),
    Route("GET", "/nodes/{node_id}/versions", "list_versions"),
    Route("GET", "/nodes/{node_id}/install", "install_node"),
    Route("GET", "/archives/{archive_id}", "show_archive"),
    Route("PUT", "/archives/{archive_id}", "receive_archive"),
)
