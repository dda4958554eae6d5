"""`comfy.model_management` as packs import it: whether to go on, and where tensors live."""

import sys
from typing import Final

from fairlead.engine.nodes.context import InterruptedByCallerError
from fairlead.engine.nodes.node_context import current_context

_CPU: Final = "cpu"


def throw_exception_if_processing_interrupted() -> None:
    """InterruptedByCallerError when the job was interrupted."""
    context = current_context()
    if context is not None:
        context.check()


def processing_interrupted() -> bool:
    """Whether the job was interrupted."""
    try:
        throw_exception_if_processing_interrupted()
    except InterruptedByCallerError:
        return True
    return False


def interrupt_current_processing(value: bool = True) -> None:  # noqa: FBT001, FBT002 -- packs may give it by place
    """End the job from within. InterruptedByCallerError."""
    if value:
        raise InterruptedByCallerError("a node has ended the execution")


def device(*_: object, **__: object) -> object:
    """The device of tensors: the first GPU where there is one, otherwise memory."""
    torch = sys.modules.get("torch")
    if torch is None:
        return _CPU
    return torch.device("cuda" if torch.cuda.is_available() else _CPU)


def memory(*_: object, **__: object) -> object:
    """Where tensors are kept meanwhile."""
    torch = sys.modules.get("torch")
    return _CPU if torch is None else torch.device(_CPU)


def nothing(*_: object, **__: object) -> None:
    """There are no models to load or to forget."""


MEMBERS: Final = {
    "InterruptProcessingException": InterruptedByCallerError,
    "throw_exception_if_processing_interrupted": throw_exception_if_processing_interrupted,
    "processing_interrupted": processing_interrupted,
    "interrupt_current_processing": interrupt_current_processing,
    **dict.fromkeys(("get_torch_device", "unet_inital_load_device", "text_encoder_device", "vae_device"), device),
    **dict.fromkeys(("intermediate_device", "unet_offload_device", "text_encoder_offload_device"), memory),
    **dict.fromkeys(("vae_offload_device",), memory),
    **dict.fromkeys(("soft_empty_cache", "unload_all_models", "load_models_gpu", "load_model_gpu"), nothing),
    **dict.fromkeys(("cleanup_models", "free_memory"), nothing),
    **dict.fromkeys(("is_device_mps", "is_device_cpu", "is_nvidia", "is_intel_xpu"), lambda *_: False),
}
