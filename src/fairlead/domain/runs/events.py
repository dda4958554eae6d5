"""What is told of a queued run to those who watch it."""

import msgspec


class RunChanged(msgspec.Struct, frozen=True, tag=True):
    """A queued run was claimed, or has ended. How it stands is in the database."""

    workspace_id: str
    run_id: str
    has_ended: bool
