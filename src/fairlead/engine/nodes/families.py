"""The families of nodes that come with the engine, named one by one: nothing is registered at import."""

from fairlead.engine.nodes import (
    audio,
    audio_io,
    batches,
    colour,
    compositing,
    datasets,
    filters,
    images_io,
    logic,
    masks,
    text,
    transform,
    upscaling,
    utilities,
    video,
)
from fairlead.engine.nodes.registry import Registry


def own_nodes() -> Registry:
    """A registry of every node that comes with the engine."""
    return Registry(
        audio.NODES,
        audio_io.NODES,
        batches.NODES,
        colour.NODES,
        compositing.NODES,
        datasets.NODES,
        filters.NODES,
        images_io.NODES,
        logic.NODES,
        masks.NODES,
        text.NODES,
        transform.NODES,
        upscaling.NODES,
        utilities.NODES,
        video.NODES,
    )
