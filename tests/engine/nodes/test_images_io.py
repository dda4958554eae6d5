"""Pictures loaded, made, shown and saved: real files in a folder, read back by another way than they were written."""

import io
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from engine.nodes.folders import FolderContext
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.pictures import UnreadablePictureError
from fairlead.engine.nodes.context import NoSuchFileError
from fairlead.engine.nodes.images_io import (
    empty_image,
    get_image_size,
    image_compare,
    load_image,
    load_image_mask,
    load_image_output,
    painter,
    preview_image,
    save_animated_png,
    save_animated_webp,
    save_image,
    save_image_advanced,
    save_svg,
)
from fairlead.engine.nodes.node import Result, definition_of

_HIDDEN = {"prompt": {"1": {"class_type": "SaveImage"}}, "extra_pnginfo": {"workflow": {"name": "Möwe"}}}


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """A folder with inputs and outputs, and what callers want written into files."""
    return FolderContext(tmp_path, _HIDDEN)


def _put(context: FolderContext, picture: Image.Image, name: str, **options: Any) -> str:
    picture.save(context.root / "input" / name, **options)
    return name


def _file(context: FolderContext, reference: dict[str, str]) -> Path:
    return context.root / reference["type"] / reference["subfolder"] / reference["filename"]


def _first(context: FolderContext, result: Result) -> Path:
    return _file(context, result.ui["images"][0])


def _open(path: Path) -> Image.Image:
    with Image.open(path) as picture:
        picture.load()
        return picture


# --- Making and measuring ---


def test_colour_is_written_red_first() -> None:
    """0xRRGGBB: red first."""
    image = empty_image(2, 3, 4, 0xFF8000)
    assert image.shape == (4, 3, 2, 3)
    np.testing.assert_allclose(image[3, 2, 1], [1, 128 / 255, 0])
    assert get_image_size(image) == (2, 3, 4)


def test_size_of_an_empty_image_is_bounded() -> None:
    """What the widgets allow together is more than any machine has."""
    with pytest.raises(ValueError, match="4096 x 16384 x 16384"):
        empty_image(16384, 16384, 4096, 0)


# --- Loading ---


def test_mask_is_what_is_missing_from_the_alpha(context: FolderContext) -> None:
    """It is what is missing from the alpha: 77 of 255 gives 0.698."""
    name = _put(context, Image.new("RGBA", (3, 2), (255, 0, 51, 77)), "a.png")
    image, mask = load_image(context, name)
    assert image.shape == (1, 2, 3, 3)
    np.testing.assert_allclose(image[0, 0, 0], [1, 0, 0.2])
    assert mask.shape == (1, 2, 3)
    np.testing.assert_allclose(mask, 178 / 255, atol=1e-6)


def test_picture_without_alpha_has_an_empty_mask_of_64_pixels(context: FolderContext) -> None:
    """It has one of 64 by 64 zeros."""
    for mode in ("RGB", "L", "1", "CMYK"):
        _, mask = load_image(context, _put(context, Image.new(mode, (3, 2)), f"{mode}.tiff"))
        assert mask.shape == (1, 64, 64)
        assert not mask.any()


def test_palette_is_looked_up(context: FolderContext) -> None:
    """Its colours are looked up, and its transparent one is in the mask."""
    picture = Image.new("P", (2, 1))
    picture.putpalette([255, 0, 0, 0, 0, 255])
    picture.putpixel((1, 0), 1)
    image, mask = load_image(context, _put(context, picture, "p.png", transparency=1))
    assert image[0, 0].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert mask[0].tolist() == [[0, 1]]


def test_sixteen_bits_are_kept(context: FolderContext) -> None:
    """Grey of 16 bits keeps its steps, and white is white."""
    grey = np.array([[0, 1, 32768, 65535]], np.uint16)
    image, _ = load_image(context, _put(context, Image.fromarray(grey), "g.png"))
    np.testing.assert_allclose(image[0, 0, :, 1], grey[0] / 65535, atol=1e-7)


def test_orientation_of_a_camera_is_applied(context: FolderContext) -> None:
    """Orientation 6: the camera was turned, so the picture is turned by a quarter clockwise."""
    picture = Image.new("RGB", (2, 1), "black")
    picture.putpixel((0, 0), (255, 255, 255))
    exif = picture.getexif()
    exif[0x0112] = 6
    image, _ = load_image(context, _put(context, picture, "e.png", exif=exif))
    assert image[0, :, :, 0].tolist() == [[1], [0]]


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png"])
def test_animation_is_a_batch(context: FolderContext, name: str) -> None:
    """Its frames are a batch, with as many masks."""
    frames = [Image.new("RGB", (4, 4), (value, value, value)) for value in (0, 128, 255)]
    options = {"save_all": True, "append_images": frames[1:], "duration": 100}
    if name.endswith("webp"):
        options["lossless"] = True
    image, mask = load_image(context, _put(context, frames[0], name, **options))
    assert image.shape == (3, 4, 4, 3)
    np.testing.assert_allclose(image[:, 0, 0, 0], [0, 128 / 255, 1], atol=1e-6)
    assert mask.shape in {(3, 64, 64), (3, 4, 4)}
    assert not mask.any()


def test_pages_of_another_size_are_left_out(context: FolderContext) -> None:
    """Those of another size than the first are left out."""
    pages = [Image.new("L", size, 255) for size in ((2, 2), (3, 3), (2, 2))]
    name = _put(context, pages[0], "pages.tiff", save_all=True, append_images=pages[1:])
    assert load_image(context, name)[0].shape == (2, 2, 2, 3)


def test_channel_is_the_one_asked_for(context: FolderContext) -> None:
    """Red, green and blue as they are, alpha as what is missing from it, of the picture's own size."""
    name = _put(context, Image.new("RGBA", (3, 2), (255, 0, 51, 204)), "c.png")
    found = {channel: load_image_mask(context, name, channel) for channel in ("red", "green", "blue", "alpha")}
    assert {mask.shape for mask in found.values()} == {(1, 2, 3)}
    values = [float(mask[0, 0, 0]) for mask in found.values()]
    assert values == pytest.approx([1, 0, 0.2, 0.2])
    opaque = load_image_mask(context, _put(context, Image.new("RGB", (3, 2)), "o.png"), "alpha")
    assert opaque.shape == (1, 2, 3)
    assert not opaque.any()


def test_output_is_loaded_by_its_annotated_name(context: FolderContext) -> None:
    """An output is found with and without its folder in brackets."""
    Image.new("RGB", (3, 2), "white").save(context.root / "output" / "o.png")
    assert load_image_output(context, "o.png [output]")[0].shape == (1, 2, 3, 3)
    assert load_image_output(context, "o.png")[0].shape == (1, 2, 3, 3)
    assert load_image(context, "o.png [output]")[0].shape == (1, 2, 3, 3)
    with pytest.raises(NoSuchFileError):
        load_image(context, "o.png")


def test_missing_file_fails_validation(context: FolderContext) -> None:
    """Validation names it, and a file that was changed has another fingerprint."""
    for run in (load_image, load_image_mask, load_image_output):
        validate, fingerprint = definition_of(run).validate, definition_of(run).fingerprint
        assert validate is not None
        assert fingerprint is not None
        kind = "output" if run is load_image_output else "input"
        assert "no.png" in validate(context, "no.png")
        path = context.root / kind / "x.png"
        path.write_bytes(b"1")
        assert validate(context, "x.png") is True
        before = fingerprint(context, "x.png")
        path.write_bytes(b"2")
        assert fingerprint(context, "x.png") != before


# --- Bad pictures ---


def _png(width: int, height: int) -> bytes:
    """The beginning of a PNG of a size, as far as a reader needs to know the size."""
    header = struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    chunks = b""
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(64)))):
        chunks += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize(("width", "height"), [(8193, 8193), (12000, 12000), (65535, 65535), (2_000_000_000, 1)])
def test_bomb_is_refused_by_its_header(context: FolderContext, width: int, height: int) -> None:
    """A picture that says it has more than 64 megapixels is refused by its header."""
    (context.root / "input" / "bomb.png").write_bytes(_png(width, height))
    with pytest.raises(UnreadablePictureError):
        load_image(context, "bomb.png")
    with pytest.raises(UnreadablePictureError):
        load_image_mask(context, "bomb.png", "red")


def test_pixels_of_an_animation_are_bounded(context: FolderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pixels of all frames together are bounded, and so is the number of frames."""
    frames = [Image.new("L", (64, 64), index) for index in range(20)]
    name = _put(context, frames[0], "long.gif", save_all=True, append_images=frames[1:])
    monkeypatch.setattr("fairlead.engine.media.arrays.PIXELS_MAX", 64 * 64 * 10)
    with pytest.raises(ValueError, match="11 x 64 x 64"):
        load_image(context, name)


def test_number_of_frames_is_bounded(context: FolderContext) -> None:
    """A file has 4096 frames at most."""
    frames = [Image.new("L", (1, 1), index % 2) for index in range(4097)]
    name = _put(context, frames[0], "film.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(UnreadablePictureError, match="4096 frames"):
        load_image(context, name)
    assert load_image_mask(context, name, "red").shape == (1, 1, 1)


def test_file_that_is_no_picture_is_refused(context: FolderContext) -> None:
    """Text, nothing, and a picture that was cut half-way are all refused in one way."""
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(whole, "PNG")
    picture, empty_tiff = whole.getvalue(), b"II*\0\x08" + bytes(9)
    for index, body in enumerate([b"", b"hello", picture[:2000], picture[:20], _png(8, 8)[:-4], empty_tiff]):
        (context.root / "input" / f"{index}.png").write_bytes(body)
        with pytest.raises(UnreadablePictureError, match="cannot be read"):
            load_image(context, f"{index}.png")


def test_file_never_runs_another_program(context: FolderContext) -> None:
    """PostScript, which the library reads by running an interpreter, is not a picture here."""
    (context.root / "input" / "x.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n"
    )
    with pytest.raises(UnreadablePictureError):
        load_image(context, "x.png")


# --- Saving ---


def test_values_are_cut_off_when_saved(context: FolderContext) -> None:
    """It is cut off: 0.5 is 127. What is beyond black and white is clipped, and what is not a number is black."""
    values = np.array([0.5, 1, -3, 7, np.nan, 254.999 / 255], np.float32).reshape(1, 1, 6, 1).repeat(3, axis=3)
    saved = save_image(context, values, "x")
    assert np.asarray(_open(_first(context, saved)))[0, :, 0].tolist() == [127, 255, 0, 255, 0, 254]
    assert saved.values[0] is values


def test_saved_picture_holds_its_workflow(context: FolderContext) -> None:
    """The prompt and what else the caller has given stand in texts of their own, as JSON."""
    saved = save_image(context, np.zeros((2, 2, 2, 3), np.float32), "a/%width%x%height%_%batch_num%")
    assert saved.ui["images"] == [
        {"filename": "2x2_0_00001_.png", "subfolder": "a", "type": "output"},
        {"filename": "2x2_1_00001_.png", "subfolder": "a", "type": "output"},
    ]
    texts = _open(_first(context, saved)).info
    assert json.loads(texts["prompt"]) == _HIDDEN["prompt"]
    assert json.loads(texts["workflow"]) == {"name": "Möwe"}


def test_impossible_metadata_name_is_left_out(tmp_path: Path) -> None:
    """It is left out, and the picture saved."""
    context = FolderContext(tmp_path, {"extra_pnginfo": {"": 1, "x" * 80: 1, "\n": 1, "ok": 1}})
    for kind in ("png", "exr"):
        chosen = {"format": kind, "bit_depth": "16-bit", "input_color_space": "sRGB"}
        save_image_advanced(context, np.zeros((1, 2, 2, 3), np.float32), "x", chosen)
    assert "ok" in _open(tmp_path / "output" / "x_00001_.png").info


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")])
def test_saved_picture_keeps_its_number_of_channels(context: FolderContext, channels: int, mode: str) -> None:
    """Grey, grey and alpha, colours, colours and alpha."""
    saved = save_image(context, np.zeros((1, 2, 2, channels), np.float32), "x")
    assert _open(_first(context, saved)).mode == mode


def test_five_channels_are_refused(context: FolderContext) -> None:
    """No picture has so many."""
    with pytest.raises(ValueError, match="5 channels"):
        save_image(context, np.zeros((1, 2, 2, 5), np.float32), "x")


def test_previews_are_temporary_and_never_overwritten(context: FolderContext) -> None:
    """Previews are temporary and have names of their own."""
    image = np.zeros((1, 2, 2, 3), np.float32)
    names = {preview_image(context, image).ui["images"][0]["filename"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"ComfyUI_temp_[a-z]{5}_00001_\.png", name) for name in names)
    assert not any((context.root / "output").iterdir())


def test_comparison_works_with_one_image(context: FolderContext) -> None:
    """Each side is shown if it is there."""
    shown = image_compare(context, None, np.zeros((2, 2, 2, 3), np.float32)).ui
    assert [len(shown["a_images"]), len(shown["b_images"])] == [2, 0]
    assert shown["a_images"][0]["type"] == "temp"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bit_files_keep_their_order_and_depth(context: FolderContext, channels: int) -> None:
    """Each channel is kept in 16 bits, cut off, with the texts in front."""
    image = np.random.default_rng(1).random((1, 5, 4, channels)).astype(np.float32)
    chosen = {"format": "png", "bit_depth": "16-bit", "input_color_space": "sRGB"}
    path = _first(context, save_image_advanced(context, image, "x", chosen))
    read = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert read is not None
    assert read.dtype == np.uint16
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[channels]
    expected = np.floor(image[0].astype(np.float64) * 65535)[..., order]
    np.testing.assert_allclose(read.reshape(5, 4, channels), expected, atol=1)
    assert json.loads(_open(path).info["workflow"]) == {"name": "Möwe"}
    eight = save_image_advanced(context, image, "y", {**chosen, "bit_depth": "8-bit"})
    assert np.asarray(_open(_first(context, eight))).dtype == np.uint8


def test_exr_is_scene_linear(context: FolderContext) -> None:
    """By the standards' formulas: sRGB 0.5 is 0.21404, 0.04 is 0.04/12.92; HLG 0.5 is 1/12 and 1 is 1; linear stays."""
    image = np.zeros((1, 20, 3, 4), np.float32)
    image[0, :, :, :3] = [[[0.5], [0.04], [1.0]]]
    image[0, ..., 3] = 0.5
    image[0, 18, 2, 0] = 7
    read = {}
    for space in ("sRGB", "HDR", "linear"):
        chosen = {"format": "exr", "bit_depth": "32-bit float", "input_color_space": space}
        path = _first(context, save_image_advanced(context, image, space, chosen))
        read[space], texts = _read_exr(path.read_bytes())
        assert json.loads(texts["prompt"]) == _HIDDEN["prompt"]
        assert (read[space]["A"] == 0.5).all()
    np.testing.assert_allclose(read["sRGB"]["G"][19], [0.2140411, 0.04 / 12.92, 1], rtol=1e-5)
    np.testing.assert_allclose(read["HDR"]["B"][0], [1 / 12, 0.04**2 / 3, 1], rtol=1e-5)
    np.testing.assert_array_equal(read["linear"]["R"], image[0, ..., 0])


def test_metadata_cannot_change_how_an_exr_is_read(tmp_path: Path) -> None:
    """A text that has the name of one of the format's own attributes is left out; others, of any name, are kept."""
    own = ("channels", "compression", "dataWindow", "lineOrder", "screenWindowCenter", "tiles", "type", "version")
    others = ("name", "preview", "envmap", "x" * 31)
    context = FolderContext(tmp_path, {"extra_pnginfo": dict.fromkeys([*own, *others], "text")})
    image = np.full((1, 2, 3, 1), 0.25, np.float32)
    chosen = {"format": "exr", "bit_depth": "32-bit float", "input_color_space": "linear"}
    read, texts = _read_exr(_first(context, save_image_advanced(context, image, "m", chosen)).read_bytes())
    assert (read["Y"] == 0.25).all()
    assert texts == {**dict.fromkeys(others, '"text"'), "type": "scanlineimage"}


def test_exr_of_noise_is_exact(context: FolderContext) -> None:
    """A block that does not shrink is kept as it is."""
    noise = np.frombuffer(np.random.default_rng(2).bytes(40 * 50 * 3 * 4), np.float32).reshape(1, 40, 50, 3)
    chosen = {"format": "exr", "bit_depth": "32-bit float", "input_color_space": "linear"}
    path = _first(context, save_image_advanced(context, noise, "n", chosen))
    read, _ = _read_exr(path.read_bytes())
    for channel, name in enumerate("RGB"):
        assert read[name].tobytes() == noise[0, ..., channel].tobytes()


def _read_exr(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Read what OpenEXR's description of its file layout calls a single-part scan-line file with ZIP compression."""
    assert data[:8] == bytes([0x76, 0x2F, 0x31, 0x01, 2, 0, 0, 0])
    place, attributes = 8, {}
    while data[place]:
        name, kind, rest = data[place:].split(b"\0", 2)
        (length,) = struct.unpack_from("<i", rest)
        attributes[name.decode()] = (kind.decode(), rest[4 : 4 + length])
        place += len(name) + len(kind) + 6 + length
    assert attributes["compression"] == ("compression", b"\x03")
    left, top, right, bottom = struct.unpack("<4i", attributes["dataWindow"][1])
    width, height = right - left + 1, bottom - top + 1
    names = [entry.decode() for entry in re.findall(rb"([A-Z])\0\x02\0\0\0.{12}", attributes["channels"][1], re.DOTALL)]
    assert names == sorted(names)
    lines = {name: np.zeros((height, width), np.float32) for name in names}
    blocks = -(-height // 16)
    for offset in struct.unpack_from(f"<{blocks}Q", data, place + 1):
        first, length = struct.unpack_from("<ii", data, offset)
        count = min(16, height - first)
        values = np.frombuffer(_unpack(data[offset + 8 : offset + 8 + length], count * width * len(names) * 4), "<f4")
        for line in range(count):
            for index, name in enumerate(names):
                begin = (line * len(names) + index) * width
                lines[name][first + line] = values[begin : begin + width]
    return lines, {name: value.decode() for name, (kind, value) in attributes.items() if kind == "string"}


def _unpack(block: bytes, size: int) -> bytes:
    if len(block) == size:
        return block
    steps = bytearray(zlib.decompress(block))
    for index in range(1, len(steps)):
        steps[index] = (steps[index - 1] + steps[index] - 128) & 0xFF
    half = (len(steps) + 1) // 2
    woven = bytearray(len(steps))
    woven[0::2], woven[1::2] = steps[:half], steps[half:]
    return bytes(woven)


def test_animation_keeps_its_frames_and_rate(context: FolderContext) -> None:
    """All frames are in one file, each for 1000/fps milliseconds, and the prompt is where editors look for it."""
    images = np.stack([np.full((4, 4, 3), value, np.float32) for value in (0, 0.5, 1)])
    moving = save_animated_png(context, images, "p", 6.0, 4)
    path = _first(context, moving)
    with Image.open(path) as picture:
        assert (getattr(picture, "n_frames", 1), picture.info["duration"]) == (3, 166)
    assert b"comfprompt\0" + json.dumps(_HIDDEN["prompt"]).encode() in path.read_bytes()
    assert moving.ui["animated"] == (True,)

    moving = save_animated_webp(context, images, "w", 10.0, lossless=True, quality=80, method="fastest")
    with Image.open(_first(context, moving)) as picture:
        assert getattr(picture, "n_frames", 1) == 3
        exif = picture.getexif()
    assert exif[0x0110] == "prompt:" + json.dumps(_HIDDEN["prompt"])
    assert json.loads(exif[0x010F].removeprefix("workflow:")) == {"name": "Möwe"}
    alone = save_animated_webp(context, images[:1], "w", 10.0, lossless=False, quality=80, method="default")
    assert (moving.ui["animated"], alone.ui["animated"]) == ((True,), (False,))


def test_drawing_survives_its_metadata(tmp_path: Path) -> None:
    """It is put behind the opening tag, and cannot end its own section; a drawing without content stays."""
    context = FolderContext(tmp_path, {"extra_pnginfo": {"note": "]]>"}})
    drawing = b"<?xml version='1.0'?>\n<svg title='a > b' viewBox='0 0 1 1'><rect/></svg>"
    saved = save_svg(context, [drawing, b"<svg/>"], "svg/x")
    written = _first(context, saved).read_bytes()
    before, _, rest = written.partition(b"<metadata>")
    content, _, after = rest.partition(b"</metadata>")
    assert before.strip() == b"<?xml version='1.0'?>\n<svg title='a > b' viewBox='0 0 1 1'>"
    assert after == b"<rect/></svg>"
    joined = "".join(re.findall(r"<!\[CDATA\[(.*?)\]\]>", content.decode(), re.DOTALL))
    assert json.loads(joined)["note"] == "]]>"
    assert _file(context, saved.ui["images"][1]).read_bytes() == b"<svg/>"


# --- Painting ---


def test_painting_lies_over_its_ground(context: FolderContext) -> None:
    """Half-transparent white over red is light red; the alpha is the mask, white where it was painted."""
    name = _put(context, Image.new("RGBA", (64, 64), (255, 255, 255, 51)), "paint.png")
    image, mask = painter(context, name, 64, 64, "#ff0000")
    np.testing.assert_allclose(image[0, 5, 5], [1, 0.2, 0.2], atol=1e-6)
    np.testing.assert_allclose(mask, 0.2, atol=1e-6)
    ground = np.zeros((2, 32, 16, 3), np.float32)
    image, mask = painter(context, name, 64, 64, "#ff0000", ground)
    assert (image.shape, mask.shape) == ((1, 32, 16, 3), (1, 32, 16))


def test_unpainted_ground_has_an_empty_mask(context: FolderContext) -> None:
    """Without a painting there is the ground and an empty mask; what is not a colour is refused."""
    image, mask = painter(context, "", 64, 128, "#0000ff")
    assert image.shape == (1, 128, 64, 3)
    assert image[0, 0, 0].tolist() == [0, 0, 1]
    assert not mask.any()
    with pytest.raises(ValueError, match="blue"):
        painter(context, "", 64, 64, "blue")
