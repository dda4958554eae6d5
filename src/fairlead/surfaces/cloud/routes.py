"""The cloud API's route table, and nothing else: what may be called, and what answers it."""

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "/api"
EVERYWHERE: Final = (PREFIX, "")
"""Clients of the engine this API follows leave the prefix out as often as not."""
UNDER_PREFIX: Final = (PREFIX,)
AT_ROOT: Final = ("",)
SOCKETS: Final = ("/ws", f"{PREFIX}/ws")


@dataclass(frozen=True, slots=True)
class Route:
    """One route, at its path behind each of some prefixes.

    The handler is a method of one of the classes of handlers in this package.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    handler: Literal[
        "submit_prompt", "show_prompt", "show_job_status", "list_jobs", "show_job", "cancel_job", "cancel_jobs",
        "show_queue", "change_queue", "interrupt",
        "list_history", "show_history", "list_local_history", "show_local_history", "change_history",
        "show_object_info", "show_node_class",
        "upload_image", "upload_mask", "view", "show_file",
        "show_features", "show_system_stats", "show_user", "show_users", "list_extensions", "list_embeddings",
        "show_node_replacements", "free_memory",
        "show_translations", "show_subgraphs", "show_templates", "list_model_folders",
        "list_settings", "change_settings", "show_setting", "change_setting",
        "list_user_files", "show_user_file", "put_user_file", "delete_user_file", "move_user_file",
    ]  # fmt: skip
    at: tuple[str, ...] = EVERYWHERE

    @property
    def paths(self) -> tuple[str, ...]:
        """Its whole paths."""
        return tuple(prefix + self.path for prefix in self.at)


ROUTES: Final = (
    Route("POST", "/prompt", "submit_prompt"),
    Route("GET", "/prompt", "show_prompt"),
    Route("GET", "/job/{job_id}/status", "show_job_status", UNDER_PREFIX),
    Route("GET", "/jobs", "list_jobs", UNDER_PREFIX),
    Route("POST", "/jobs/cancel", "cancel_jobs", UNDER_PREFIX),
    Route("GET", "/jobs/{job_id}", "show_job", UNDER_PREFIX),
    Route("POST", "/jobs/{job_id}/cancel", "cancel_job", UNDER_PREFIX),
    Route("GET", "/queue", "show_queue"),
    Route("POST", "/queue", "change_queue"),
    Route("POST", "/interrupt", "interrupt"),
    Route("GET", "/history_v2", "list_history"),
    Route("GET", "/history_v2/{job_id}", "show_history"),
    Route("GET", "/history", "list_local_history"),
    Route("GET", "/history/{job_id}", "show_local_history"),
    Route("POST", "/history", "change_history"),
    Route("GET", "/object_info", "show_object_info"),
    Route("GET", "/object_info/{class_name:path}", "show_node_class"),
    Route("POST", "/upload/image", "upload_image"),
    Route("POST", "/upload/mask", "upload_mask"),
    Route("GET", "/view", "view"),
    Route("GET", "/files/{file_id}", "show_file", AT_ROOT),
    Route("GET", "/features", "show_features"),
    Route("GET", "/system_stats", "show_system_stats"),
    Route("GET", "/user", "show_user", UNDER_PREFIX),
    Route("GET", "/users", "show_users"),
    Route("GET", "/extensions", "list_extensions"),
    Route("GET", "/embeddings", "list_embeddings"),
    Route("GET", "/node_replacements", "show_node_replacements"),
    Route("POST", "/free", "free_memory"),
    Route("GET", "/i18n", "show_translations"),
    Route("GET", "/global_subgraphs", "show_subgraphs"),
    Route("GET", "/workflow_templates", "show_templates"),
    Route("GET", "/experiment/models", "list_model_folders"),
    Route("GET", "/settings", "list_settings"),
    Route("POST", "/settings", "change_settings"),
    Route("GET", "/settings/{setting:path}", "show_setting"),
    Route("POST", "/settings/{setting:path}", "change_setting"),
    Route("GET", "/userdata", "list_user_files"),
    Route("POST", "/userdata/{file:path}/move/{to:path}", "move_user_file"),
    Route("GET", "/userdata/{file:path}", "show_user_file"),
    Route("POST", "/userdata/{file:path}", "put_user_file"),
    Route("DELETE", "/userdata/{file:path}", "delete_user_file"),
)
