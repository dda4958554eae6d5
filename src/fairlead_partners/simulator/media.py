"""Small real files, made fast: anyone who decodes them finds a picture, a sound, a clip or a body."""

import io
import json
import struct
import tempfile
import wave
from base64 import b64encode
from functools import lru_cache
from pathlib import Path

import cv2
import msgspec
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from fairlead_partners.procedural.image import paint

from .prompts import prompt

SIDE_MAX = 2048
SECONDS_MAX = 120.0
VARIANTS = 8
SKETCH_SIDE = 128
SKETCH_SIDE_MIN = 8
COLOURS = 32
"""Flat areas keep the files small."""
MARK = "simulated"
MARK_HEIGHT_MIN = 6
CLIP_SIDE = 64
CLIP_FRAMES = 12

_PICTURES = {
    "png": ("PNG", "image/png"),
    "jpeg": ("JPEG", "image/jpeg"),
    "jpg": ("JPEG", "image/jpeg"),
    "webp": ("WEBP", "image/webp"),
}
_FAST: dict[str, dict[str, int]] = {"PNG": {"compress_level": 1}, "WEBP": {"method": 0}}
_RAW_MODELS = {"obj": "model/obj", "fbx": "application/octet-stream", "usdz": "model/vnd.usdz+zip", "mtl": "model/mtl"}


class Media(msgspec.Struct, frozen=True):
    """The bytes of a file, what they are, and how such files are called."""

    content_type: str
    extension: str
    content: bytes

    def base64(self) -> str:
        """Return the bytes as text."""
        return b64encode(self.content).decode()


def picture(kind: str = "png", width: int = 1024, height: int = 1024, seed: int = 0) -> Media:
    """Make a PNG, JPEG or WEBP of what was asked for, one of a few by the seed, with the word "simulated" on it.

    The built-in partner's painter draws it, small, and it is enlarged. Sides beyond 2048 are scaled down.
    """
    return _picture(kind, width, height, seed % VARIANTS, prompt())


@lru_cache(maxsize=64)
def _picture(kind: str, width: int, height: int, seed: int, words: str) -> Media:
    scale = min(1.0, SIDE_MAX / max(width, height, 1))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    enlarged = _sketch(words, seed, size).resize(size, Image.Resampling.BICUBIC)
    image = enlarged.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).convert("RGB")
    _mark(image)
    format_, content_type = _PICTURES[kind]
    buffer = io.BytesIO()
    image.save(buffer, format_, **_FAST.get(format_, {}))
    return Media(content_type, "jpg" if kind == "jpeg" else kind, buffer.getvalue())


@lru_cache(maxsize=64)
def _sketch(words: str, seed: int, size: tuple[int, int]) -> Image.Image:
    """Paint what was asked for, in the shape that was asked for, with at most 128 pixels a side and without grain."""
    scale = min(1.0, SKETCH_SIDE / max(size))
    sides = max(SKETCH_SIDE_MIN, round(size[0] * scale)), max(SKETCH_SIDE_MIN, round(size[1] * scale))
    painted = Image.open(io.BytesIO(paint(words, seed, *sides))).convert("RGB")
    return painted.filter(ImageFilter.GaussianBlur(1.2))


def _mark(image: Image.Image) -> None:
    """Write on a picture that it is simulated, where there is room for that."""
    height = min(image.height // 12, image.width // 8)
    if height < MARK_HEIGHT_MIN:
        return
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(height)
    place = (height // 2, image.height - height * 3 // 2)
    draw.text(place, MARK, (255, 255, 255), font, stroke_width=max(1, height // 12), stroke_fill=(0, 0, 0))


@lru_cache(maxsize=1)
def vector() -> Media:
    """Make an SVG."""
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="3"/></svg>'
    return Media("image/svg+xml", "svg", drawing)


@lru_cache(maxsize=1)
def clip() -> Media:
    """Make an MP4 (VP9) of half a second; every video is this one, whatever was asked."""
    with tempfile.TemporaryDirectory(prefix="simulator-") as folder:
        path = Path(folder) / "clip.mp4"
        code = cv2.VideoWriter.fourcc(*"vp09")
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, code, 24.0, (CLIP_SIDE, CLIP_SIDE))
        try:
            for number in range(CLIP_FRAMES):
                writer.write(np.full((CLIP_SIDE, CLIP_SIDE, 3), number * 20, np.uint8))
        finally:
            writer.release()
        return Media("video/mp4", "mp4", path.read_bytes())


@lru_cache(maxsize=32)
def wav(seconds: float = 1.0, rate: int = 24_000) -> Media:
    """Make a WAV of silence, 16 bits mono."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(pcm(seconds, rate).content)
    return Media("audio/wav", "wav", buffer.getvalue())


@lru_cache(maxsize=32)
def mp3(seconds: float = 1.0) -> Media:
    """Make an MP3 of silence: frames of 128 kbit/s at 44.1 kHz whose side information is zero."""
    frame = b"\xff\xfb\x90\x64" + bytes(413)
    count = max(1, round(min(seconds, SECONDS_MAX) * 44_100 / 1152))
    return Media("audio/mpeg", "mp3", frame * count)


def pcm(seconds: float = 1.0, rate: int = 24_000) -> Media:
    """Make raw silence, 16 bits mono."""
    return Media("audio/pcm", "pcm", bytes(2 * round(min(seconds, SECONDS_MAX) * rate)))


@lru_cache(maxsize=1)
def glb() -> Media:
    """Make a binary glTF: one triangle."""
    corners = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)
    position = {
        "bufferView": 0,
        "componentType": 5126,
        "count": 3,
        "type": "VEC3",
        "min": [0, 0, 0],
        "max": [1, 1, 0],
    }
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "buffers": [{"byteLength": len(corners)}],
        "bufferViews": [{"buffer": 0, "byteLength": len(corners)}],
        "accessors": [position],
    }
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(corners), b"BIN\0") + corners
    return Media("model/gltf-binary", "glb", struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)


@lru_cache(maxsize=8)
def model(kind: str = "glb") -> Media:
    """Make a 3D file: a real GLB or OBJ; of the other kinds only the name and the type are real."""
    if kind == "glb":
        return glb()
    triangle = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
    return Media(_RAW_MODELS[kind], kind, triangle if kind == "obj" else b"simulated " + kind.encode() + b"\n")
