"""How far a node is, as packs tell it: `comfy.utils.ProgressBar`, and what the schema form has for it."""

import io
from typing import Final

import numpy as np
from PIL import Image

from fairlead.engine.media.pictures import as_picture
from fairlead.engine.nodes.node_context import NodeContext, current_context
from fairlead.engine.packs.tensors import from_pack

_PREVIEW_EDGE: Final = 512
_QUALITY: Final = 90


class ProgressBar:
    """The progress of the node that makes it; it may be told from threads of the node's own as well."""

    def __init__(self, total: float, node_id: str | None = None) -> None:
        del node_id  # a bar is of the node that makes it, whatever it says
        self.total = total
        self.current: float = 0
        self._context = current_context()

    def update_absolute(self, value: float, total: float | None = None, preview: object = None) -> None:
        """Say how far it is, of how much; `preview` is a format, a picture and the longest edge it is shown with."""
        if total is not None:
            self.total = total
        self.current = min(value, self.total)
        tell_progress(self.current, self.total, preview, self._context)

    def update(self, value: float) -> None:
        """Say that it is further by so much."""
        self.update_absolute(self.current + value)


def tell_progress(value: float, most: float, preview: object, context: NodeContext | None) -> None:
    """Tell who watches, if a node is executed; InterruptedByCallerError when it is not wanted any more."""
    if context is None:
        return
    context.progress(float(value), float(most))
    if preview is not None:
        show_preview(preview, context)


def show_preview(preview: object, context: NodeContext) -> None:
    """Show a picture, an image or a tensor; in a tuple its format comes first and its longest edge last."""
    format_, picture, edge = "JPEG", preview, _PREVIEW_EDGE
    if isinstance(preview, tuple) and len(preview) >= 2:  # noqa: PLR2004 -- the format and the picture
        format_, picture = str(preview[0]), preview[1]
        edge = int(preview[2]) if len(preview) > 2 and preview[2] else max(_size(picture))  # noqa: PLR2004 -- and the edge
    shown = _picture(picture)
    shown.thumbnail((edge, edge))
    is_png = format_.upper() == "PNG"
    file = io.BytesIO()
    if is_png:
        shown.save(file, "PNG", compress_level=1)
    else:
        shown.convert("RGB").save(file, "JPEG", quality=_QUALITY)
    context.preview("image/png" if is_png else "image/jpeg", file.getvalue())


def _picture(picture: object) -> Image.Image:
    """A picture of its own, of the first image where there are several. TypeError for anything else."""
    if isinstance(picture, Image.Image):
        return picture.copy()
    array = from_pack(picture)
    if not isinstance(array, np.ndarray) or array.ndim not in {3, 4}:
        raise TypeError(f"a preview is a picture or an image, and not {type(picture).__name__}")
    return as_picture(np.asarray(array[0] if array.ndim == 4 else array, np.float32))  # noqa: PLR2004 -- a batch


def _size(picture: object) -> tuple[int, int]:
    return picture.size if isinstance(picture, Image.Image) else (_PREVIEW_EDGE, _PREVIEW_EDGE)
