"""The kinds of error a job may fail with that are not a node's own (C-12), by the names that callers know."""

from typing import Final

VALIDATION: Final = "ValidationError"
MODEL_DOWNLOAD: Final = "ModelDownloadError"
IMAGE_DOWNLOAD: Final = "ImageDownloadError"
OUT_OF_MEMORY: Final = "OOMError"
INSUFFICIENT_FUNDS: Final = "InsufficientFundsError"
INACTIVE_SUBSCRIPTION: Final = "InactiveSubscriptionError"
TIMEOUT: Final = "TimeoutError"
CRASH: Final = "EngineCrashError"
TOO_MUCH: Final = "TooMuchOutputError"
DEPLOYMENT_DELETED: Final = "DeploymentDeletedError"
INTERNAL: Final = "InternalError"
"""The server failed. The jobs API reports it like a node that has failed."""

OF_THE_SPECIFICATION: Final = frozenset(
    {VALIDATION, MODEL_DOWNLOAD, IMAGE_DOWNLOAD, OUT_OF_MEMORY, INSUFFICIENT_FUNDS, INACTIVE_SUBSCRIPTION}
)
"""The six that the specification has; any other name is used only where none of them says the cause (D-19)."""
JOB_ERRORS: Final = OF_THE_SPECIFICATION | {TIMEOUT, CRASH, TOO_MUCH, DEPLOYMENT_DELETED}
