"""`comfy.utils.common_upscale` as packs import it, by the kernels of our own nodes."""

import numpy as np

from fairlead.engine.media.resampling import scale
from fairlead.engine.packs.tensors import for_pack, from_pack


def common_upscale(samples: object, width: int, height: int, upscale_method: str, crop: str) -> object:
    """Scale images [B,C,H,W] to a size; with crop `center` what would be out of proportion is cut off before.

    ValueError for a method there is not.
    """
    images = np.moveaxis(np.asarray(from_pack(samples), np.float32), 1, -1)
    scaled = scale(images, width, height, upscale_method, crop)
    return for_pack(np.ascontiguousarray(np.moveaxis(scaled, -1, 1)))
