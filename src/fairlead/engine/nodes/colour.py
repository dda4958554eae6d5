"""Nodes that change colours pixel by pixel: brightness, contrast, YUV, matching one image's colours to another's."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairlead.engine.media.arrays import Array
from fairlead.engine.media.pictures import to_bytes
from fairlead.engine.nodes.context import Context
from fairlead.engine.nodes.node import Output, Result, bare_socket, combo, node, number, socket

Histogram: TypeAlias = list[int]
"""How many pixels there are of each of 256 levels."""

_LEVELS: Final = 256
_HALF_LEVEL: Final = np.float32(0.5 / 255)
_LUMINANCE: Final = np.array([0.2126, 0.7152, 0.0722], np.float32)
"""What red, green and blue add to the brightness we perceive (ITU-R BT.709)."""
_FLAT: Final = 1e-6
"""The least variance of a channel that is stretched; below it there are only rounding errors."""

_TO_XYZ: Final = np.array(
    [[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]]
)
"""Linear sRGB to CIE XYZ."""
_WHITE: Final = np.array([0.95047, 1.0, 1.08883])
"""D65, the white point of sRGB."""
_LAB_KNEE: Final = 6 / 29
"""Where the cube root of Lab gives way to a line."""
_SRGB_KNEE: Final = 0.04045
_LINEAR_KNEE: Final = 0.0031308
"""Where the power of sRGB gives way to a line, before and behind it."""

_Map: TypeAlias = Callable[[Array], Array]


@node("ImageInvert", "Invert Image Colors", "image/color", outputs=(Output("IMAGE"),))
def image_invert(image: Annotated[Array, bare_socket("IMAGE")]) -> Array:
    """The negative."""
    return 1.0 - image


@node(
    "AdjustBrightness", "Adjust Brightness", "image/adjustments", outputs=(Output("IMAGE", "images"),),
    is_experimental=True,
)  # fmt: skip
def adjust_brightness(
    images: Annotated[Array, socket("IMAGE")], factor: Annotated[float, number(1.0, 0.0, 2.0)]
) -> Array:
    """Every value times the factor."""
    return _clip(images * np.float32(factor))


@node(
    "AdjustContrast", "Adjust Contrast", "image/adjustments", outputs=(Output("IMAGE", "images"),),
    is_experimental=True,
)  # fmt: skip
def adjust_contrast(
    images: Annotated[Array, socket("IMAGE")], factor: Annotated[float, number(1.0, 0.0, 2.0)]
) -> Array:
    """Every value's distance from middle grey times the factor."""
    return _clip((images - 0.5) * np.float32(factor) + 0.5)


@node(
    "NormalizeImages", "Normalize Image Colors", "image/color", outputs=(Output("IMAGE", "images"),),
    is_experimental=True,
)  # fmt: skip
def normalize_images(
    images: Annotated[Array, socket("IMAGE")],
    mean: Annotated[float, number(0.5, 0.0, 1.0, advanced=True)],
    std: Annotated[float, number(0.5, 0.001, 1.0, advanced=True)],
) -> Array:
    """The usual input of models: the distance from the mean in standard deviations, not clipped to 0 to 1."""
    return (images - np.float32(mean)) / np.float32(std)


@node(
    "ImageRGBToYUV", "Image RGB to YUV", "image/color",
    outputs=(Output("IMAGE", "Y"), Output("IMAGE", "U"), Output("IMAGE", "V")),
)  # fmt: skip
def image_rgb_to_yuv(image: Annotated[Array, socket("IMAGE")]) -> tuple[Array, Array, Array]:
    """Luma and the two differences of colour (JPEG's, around 0.5), each as a grey image."""
    rgb = rgb_of(image)
    y = rgb @ np.array([0.299, 0.587, 0.114], np.float32)
    u = (rgb[..., 2] - y) * 0.564 + 0.5
    v = (rgb[..., 0] - y) * 0.713 + 0.5
    return _grey(y), _grey(u), _grey(v)


@node("ImageYUVToRGB", "Image YUV to RGB", "image/color", outputs=(Output("IMAGE"),))
def image_yuv_to_rgb(
    Y: Annotated[Array, socket("IMAGE")],  # noqa: N803 -- the inputs' names as workflows have them
    U: Annotated[Array, socket("IMAGE")],  # noqa: N803 -- same
    V: Annotated[Array, socket("IMAGE")],  # noqa: N803 -- same
) -> Array:
    """The way back from ImageRGBToYUV; of an image with colours its mean is taken."""
    if not Y.shape[:3] == U.shape[:3] == V.shape[:3]:
        raise ValueError("Y, U and V must have one size, and the same number of images.")
    y, u, v = Y.mean(axis=-1), U.mean(axis=-1) - 0.5, V.mean(axis=-1) - 0.5
    return _clip(np.stack([y + 1.403 * v, y - 0.714 * v - 0.344 * u, y + 1.773 * u], axis=-1))


@node(
    "ImageHistogram", "Image Histogram", "utilities",
    outputs=tuple(Output("HISTOGRAM", name) for name in ("rgb", "luminance", "red", "green", "blue")),
)  # fmt: skip
def image_histogram(
    image: Annotated[Array, socket("IMAGE")],
) -> tuple[Histogram, Histogram, Histogram, Histogram, Histogram]:
    """Pixels per level of the first image; `rgb` is the mean of its three colours' histograms."""
    first = rgb_of(image)[0]
    red, green, blue = (_counts(first[..., channel]) for channel in range(3))
    luminance = _counts(first @ _LUMINANCE)
    return (
        ((red + green + blue) // 3).tolist(), luminance.tolist(), red.tolist(), green.tolist(), blue.tolist(),
    )  # fmt: skip


@node("CurveEditor", "Curve Editor", "utilities", outputs=(Output("CURVE", "curve"),))
def curve_editor(
    curve: Annotated[
        object,
        socket(
            "CURVE",
            default={"points": [[0.0, 0.0], [1.0, 1.0]], "interpolation": "monotone_cubic"},
            socketless=True,
        ),
    ],
    histogram: Annotated[Histogram | None, socket("HISTOGRAM")] = None,
) -> Result:
    """A curve drawn in the editor; the histogram is only shown behind it."""
    ui = {} if histogram is None else {"histogram": list(histogram)}
    return Result((_curve(curve),), ui)


@node("ColorTransfer", "Transfer Color", "image/filters", outputs=(Output("IMAGE", "image"),))
def color_transfer(
    context: Context,
    image_target: Annotated[Array, socket("IMAGE")],
    image_ref: Annotated[Array, socket("IMAGE")],
    method: Annotated[str, combo("reinhard_lab", "mkl_lab", "histogram", multiselect=False)],
    source_stats: Annotated[
        Mapping[str, object],
        socket(
            "COMFY_DYNAMICCOMBO_V3",
            options=[
                {"key": "per_frame", "inputs": {"required": {}}},
                {"key": "uniform", "inputs": {"required": {}}},
                {
                    "key": "target_frame",
                    "inputs": {"required": {"target_index": ["INT", {"default": 0, "min": 0, "max": 10000}]}},
                },
            ],
        ),
    ],
    strength: Annotated[float, number(1.0, 0.0, 10.0, step=0.01)],
) -> Array:
    """The target in the reference's colours.

    The colours of the target are measured frame by frame, over all its frames, or in one of them. Frame by frame, a
    reference of several frames goes along with the target's; otherwise its frames count as one picture.
    """
    if strength == 0:
        return image_target
    target, reference = rgb_of(image_target), rgb_of(image_ref)
    between = _METHODS[method]
    shared = _shared_map(between, target, reference, source_stats)
    frames = []
    for index in range(len(target)):
        context.check()
        frame = target[index : index + 1]
        match = shared or between(frame, reference[min(index, len(reference) - 1)][None])
        frames.append(_clip(frame + np.float32(strength) * (match(frame) - frame)))
    return np.concatenate([np.concatenate(frames), image_target[..., 3:]], axis=-1)


def rgb_of(image: Array) -> Array:
    """The red, green and blue of an image, without its alpha; ValueError when it has less."""
    if image.shape[-1] < 3:  # noqa: PLR2004 -- red, green and blue
        raise ValueError(f"This node needs red, green and blue; the image has {image.shape[-1]} channel(s).")
    return image[..., :3]


def _clip(values: Array) -> Array:
    """Values clipped to 0 to 1."""
    held: Array = np.clip(values, 0.0, 1.0)
    return held


def _grey(values: Array) -> Array:
    return np.repeat(values[..., None], 3, axis=-1)


def _counts(values: Array) -> NDArray[np.int64]:
    return np.bincount(to_bytes(values).ravel(), minlength=_LEVELS)


def _curve(value: Any) -> dict[str, object]:
    """The curve as workflows hold it, or from the older form, which is its points alone."""
    value = value if isinstance(value, Mapping) else {"points": value}
    try:
        points = [[float(x), float(y)] for x, y in value["points"]]
    except (KeyError, TypeError, ValueError):
        raise ValueError("A curve is given as points [x, y].") from None
    return {"points": points, "interpolation": value.get("interpolation", "monotone_cubic")}


# --- Taking over another image's colours ------------------------------------------------------------------------------


def _shared_map(
    between: Callable[[Array, Array], _Map], target: Array, reference: Array, source_stats: Mapping[str, Any]
) -> _Map | None:
    """The one map for all frames, unless each has its own."""
    if source_stats["source_stats"] == "uniform":
        return between(target, reference)
    if source_stats["source_stats"] == "target_frame":
        chosen = min(int(source_stats["target_index"]), len(target) - 1)
        return between(target[chosen : chosen + 1], reference)
    return None


def _reinhard(source: Array, reference: Array) -> _Map:
    """Each channel of Lab moved and stretched to the reference's mean and deviation (Reinhard et al., 2001)."""
    (mean, covariance), (wanted_mean, wanted) = _moments(source), _moments(reference)
    stretch = np.sqrt(np.diag(wanted) / np.maximum(np.diag(covariance), _FLAT))
    return _in_lab(np.diag(stretch), mean, wanted_mean)


def _monge_kantorovich(source: Array, reference: Array) -> _Map:
    """The linear map of Lab that takes mean and covariance over with the least change (Pitié and Kokaram, 2007)."""
    (mean, covariance), (wanted_mean, wanted) = _moments(source), _moments(reference)
    root = _power(covariance, 0.5)
    inverse = _power(covariance, -0.5)
    return _in_lab(inverse @ _power(root @ wanted @ root, 0.5) @ inverse, mean, wanted_mean)


def _histogram(source: Array, reference: Array) -> _Map:
    """Each channel's levels moved so that as many pixels lie below them as in the reference."""
    levels = np.arange(_LEVELS)
    tables = []
    for channel in range(3):
        counts = _counts(source[..., channel] + _HALF_LEVEL)
        wanted = _counts(reference[..., channel] + _HALF_LEVEL)
        used = np.flatnonzero(wanted)
        below, wanted_below = counts.cumsum() / counts.sum(), wanted.cumsum()[used] / wanted.sum()
        tables.append(np.interp(below, wanted_below, used) / 255.0)

    def apply(frames: Array) -> Array:
        channels = [np.interp(frames[..., channel] * 255.0, levels, tables[channel]) for channel in range(3)]
        return np.stack(channels, axis=-1).astype(np.float32)

    return apply


_METHODS: Final[Mapping[str, Callable[[Array, Array], _Map]]] = {
    "reinhard_lab": _reinhard,
    "mkl_lab": _monge_kantorovich,
    "histogram": _histogram,
}


def _moments(frames: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of the colours in Lab."""
    colours = _lab(frames).reshape(-1, 3)
    mean = colours.mean(axis=0, dtype=np.float64)
    centred = colours - mean.astype(np.float32)
    return mean, (centred.T @ centred).astype(np.float64) / len(colours)


def _power(symmetric: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(symmetric)
    power: NDArray[np.float64] = (vectors * np.maximum(values, _FLAT) ** exponent) @ vectors.T
    return power


def _in_lab(matrix: NDArray[np.float64], mean: NDArray[np.float64], wanted_mean: NDArray[np.float64]) -> _Map:
    linear, offset = matrix.T.astype(np.float32), (wanted_mean - matrix @ mean).astype(np.float32)
    return lambda frames: _from_lab(_lab(frames) @ linear + offset)


def _lab(rgb: Array) -> Array:
    """CIE L*a*b* (D65) of sRGB."""
    linear = np.where(rgb > _SRGB_KNEE, ((np.maximum(rgb, 0.0) + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    xyz = linear @ (_TO_XYZ / _WHITE[:, None]).T.astype(np.float32)
    cube = np.where(xyz > _LAB_KNEE**3, np.cbrt(xyz), xyz / (3 * _LAB_KNEE**2) + 4 / 29)
    x, y, z = cube[..., 0], cube[..., 1], cube[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def _from_lab(lab: Array) -> Array:
    """SRGB of CIE L*a*b* (D65), colours that it cannot show brought to the nearest value of each channel."""
    y = (lab[..., 0] + 16) / 116
    cube = np.stack([y + lab[..., 1] / 500, y, np.maximum(y - lab[..., 2] / 200, 0.0)], axis=-1)
    xyz = np.where(cube > _LAB_KNEE, cube**3, (cube - 4 / 29) * np.float32(3 * _LAB_KNEE**2))
    linear = xyz @ np.linalg.inv(_TO_XYZ / _WHITE[:, None]).T.astype(np.float32)
    power = 1.055 * np.maximum(linear, _LINEAR_KNEE) ** (1 / 2.4) - 0.055
    return _clip(np.where(linear > _LINEAR_KNEE, power, linear * 12.92))


NODES: Final = (
    image_invert,
    adjust_brightness,
    adjust_contrast,
    normalize_images,
    image_rgb_to_yuv,
    image_yuv_to_rgb,
    image_histogram,
    curve_editor,
    color_transfer,
)
