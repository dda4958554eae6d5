from .classic import NODE_CLASS_MAPPINGS as CLASSIC
from .classic import NODE_DISPLAY_NAME_MAPPINGS
from .flow import NODE_CLASS_MAPPINGS as FLOW
from .schema import comfy_entrypoint

NODE_CLASS_MAPPINGS = {**CLASSIC, **FLOW}
WEB_DIRECTORY = "./web"

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS", "WEB_DIRECTORY", "comfy_entrypoint"]
