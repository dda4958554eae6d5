"""What callers of the engine's hosts are told when nothing comes of what they asked."""


class EngineUnavailableError(Exception):
    """No engine host does what was asked of one right now; the words say why."""
