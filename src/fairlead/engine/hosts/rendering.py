"""Pictures made of pictures for the server, which decodes nothing itself. Sizes are known before they are decoded."""

from pathlib import Path
from typing import Final

from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from fairlead.engine.hosts.service import Render, Rendered
from fairlead.engine.media.arrays import FRAME_PIXELS_MAX
from fairlead.engine.media.pictures import UnreadablePictureError, open_picture

_EDGE_MAX: Final = 16_384
_TEXTS_MAX: Final = 64 * 2**20
_QUALITIES: Final = (1, 100)
_THUMBNAIL_EDGES: Final = (1, 4_096)
_TYPES: Final = {
    "mask": "image/png", "rgb": "image/png", "a": "image/png", "webp": "image/webp", "jpeg": "image/jpeg",
    "thumbnail": "image/jpeg",
}  # fmt: skip


def render(order: Render) -> Rendered:
    """Write the picture that an order asks for; a fault of the order is returned."""
    if order.how not in _TYPES:
        return Rendered(error=f"There is no way {order.how[:20]!r} to show a picture.")
    target = Path(order.target)
    try:
        with open_picture(Path(order.original)) as image:
            _render(order, image, target)
    except UnreadablePictureError as error:
        problem = _words(error)
    except (MemoryError, OSError, ValueError) as error:
        problem = f"The picture could not be made: {type(error).__name__}."
    else:
        return Rendered(_TYPES[order.how])
    target.unlink(missing_ok=True)
    return Rendered(error=problem)


def _words(error: UnreadablePictureError) -> str:
    """Our own message: the library's names the file's path."""
    match error.__cause__:
        case None:
            return str(error)
        case Image.DecompressionBombError() | Image.DecompressionBombWarning():
            return f"The picture has more than {FRAME_PIXELS_MAX} pixels."
        case _:
            return "The picture cannot be read."


def _render(order: Render, image: Image.Image, target: Path) -> None:
    quality = min(max(order.quality, _QUALITIES[0]), _QUALITIES[1])
    if order.how == "thumbnail":
        return _thumbnail(image, order.edge).save(target, "JPEG", quality=quality)
    upright = _upright(image)
    match order.how:
        case "mask":
            _mask(upright, Path(order.other or "")).save(target, "PNG", pnginfo=_texts(image))
        case "rgb":
            upright.convert("RGB").save(target, "PNG")
        case "a":
            _alpha_alone(upright).save(target, "PNG")
        case "webp":
            upright.convert("RGBA" if upright.has_transparency_data else "RGB").save(target, "WEBP", quality=quality)
        case _:
            _on_white(upright).save(target, "JPEG", quality=quality)
    return None


def _check(image: Image.Image) -> None:
    if max(image.size) > _EDGE_MAX or image.width * image.height > FRAME_PIXELS_MAX:
        raise UnreadablePictureError(
            f"The picture has {image.width} x {image.height} pixels; at most {_EDGE_MAX} are allowed at an edge, "
            f"and {FRAME_PIXELS_MAX} in all."
        )


def _upright(image: Image.Image) -> Image.Image:
    """The first frame in 8 bits, turned as its camera says."""
    _check(image)
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):  # 16 bits of grey, which would be clipped instead of scaled
        return upright.convert("I").point(lambda value: value * (1 / 257)).convert("L")
    return upright


def _mask(original: Image.Image, mask: Path) -> Image.Image:
    """The colours of one picture and the alpha of another, which is scaled to its size (engine-wire, 2.5)."""
    with open_picture(mask) as drawn:
        alpha = _upright(drawn).convert("RGBA").getchannel("A")
    if alpha.size != original.size:
        alpha = alpha.resize(original.size, Image.Resampling.BILINEAR)
    masked = original.convert("RGBA")
    masked.putalpha(alpha)
    return masked


def _alpha_alone(picture: Image.Image) -> Image.Image:
    """Black with the picture's alpha, as editors ask for it."""
    alone = Image.new("RGBA", picture.size)
    alone.putalpha(picture.convert("RGBA").getchannel("A"))
    return alone


def _thumbnail(image: Image.Image, edge: int) -> Image.Image:
    bound = min(max(edge, _THUMBNAIL_EDGES[0]), _THUMBNAIL_EDGES[1])
    _check(image)
    image.draft("RGB", (bound, bound))  # a JPEG need not be decoded in full for a small picture
    small = _on_white(_upright(image))
    small.thumbnail((bound, bound), Image.Resampling.LANCZOS)
    return small


def _on_white(picture: Image.Image) -> Image.Image:
    """Without alpha, which JPEG does not know."""
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    white = Image.new("RGBA", picture.size, "white")
    white.alpha_composite(picture.convert("RGBA"))
    return white.convert("RGB")


def _texts(image: Image.Image) -> PngInfo:
    """The texts of a PNG: workflows are kept in them."""
    kept, left = PngInfo(), _TEXTS_MAX
    for name, value in getattr(image, "text", {}).items():
        left -= len(value)
        if left >= 0:
            kept.add_text(name, str(value))
    return kept
