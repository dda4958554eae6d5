"""What judges the bytes that callers send, before they are kept."""

from contextlib import AsyncExitStack

from fairlead.moderation.pool import ModerationSettings, ModeratorNotStartedError, Moderators
from fairlead.observing.observations import Observer
from fairlead.operations.assets.moderation import Moderation
from fairlead.server.settings import BadSettingError, Settings


async def ready_moderation(settings: Settings, observe: Observer, stack: AsyncExitStack) -> Moderation:
    """The list of hashes, and the operator's callable where there is one; BadSettingError where it cannot be used."""
    if settings.moderation is None:
        return Moderation(observe, blocked=settings.blocked_hashes)
    moderators = Moderators(
        ModerationSettings(
            source=settings.moderation,
            folder=(settings.data / "moderation").resolve(),
            seconds=settings.moderation_seconds,
            processes=settings.moderation_processes,
            memory=settings.moderation_memory_mib * 2**20,
        )
    )
    stack.push_async_callback(moderators.close)
    try:
        await moderators.begin()
    except (ModeratorNotStartedError, OSError) as error:
        raise BadSettingError(f"FAIRLEAD_MODERATION: {settings.moderation} cannot be used: {error}") from error
    return Moderation(observe, blocked=settings.blocked_hashes, judge=moderators.judge)
