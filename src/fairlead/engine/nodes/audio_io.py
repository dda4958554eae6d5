"""Nodes that load sounds of files, and save or show them."""

import secrets
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from fairlead.engine.media import clip_sound, sound_files
from fairlead.engine.media.arrays import Array
from fairlead.engine.media.sounds import Sound, parts, sound
from fairlead.engine.nodes.context import Context
from fairlead.engine.nodes.images_io import HIDDEN, file_digest, known_file, metadata
from fairlead.engine.nodes.node import Output, Result, combo, node, socket, text

_MP3: Final = combo("V0", "128k", "320k", default="V0", multiselect=False)
_OPUS: Final = combo("64k", "96k", "128k", "192k", "320k", default="128k", multiselect=False)
_FORMATS: Final = [
    {"key": "flac", "inputs": {"required": {}}},
    {"key": "mp3", "inputs": {"required": {"quality": [_MP3.type, dict(_MP3.options)]}}},
    {"key": "opus", "inputs": {"required": {"quality": [_OPUS.type, dict(_OPUS.options)]}}},
]


def _digest(context: Context, audio: str) -> str:
    return file_digest(context, audio)


def _is_known(context: Context, audio: str | None) -> bool | str:
    return known_file(context, audio, "audio")


@node("LoadAudio", "Load Audio", "audio", outputs=(Output("AUDIO"),), fingerprint=_digest, validate=_is_known)
def load_audio(context: Context, audio: Annotated[str, combo(audio_upload=True, multiselect=False)]) -> Sound:
    """The sound of a file, which may also be a video."""
    path = context.input_file(audio)
    try:
        found: tuple[Array, int] | None = sound_files.read(path)
    except sound_files.UnreadableSoundError:
        found = clip_sound.read(path)
    if found is None:
        raise ValueError("The file has no sound.")
    return sound(found[0][None], found[1])


def _refuse(audio: object = None) -> str:  # noqa: ARG001 -- whatever was recorded
    return "A sound is recorded in a browser, not here. Upload it, and load it with LoadAudio."


@node("RecordAudio", "Record Audio", "audio", outputs=(Output("AUDIO"),), validate=_refuse)
def record_audio(audio: Annotated[object, socket("AUDIO_RECORD")]) -> Sound:
    """Refused, because a server has no microphone."""
    raise ValueError(_refuse(audio))


@node(
    "SaveAudio", "Save Audio (FLAC) (DEPRECATED)", "audio", outputs=(Output("AUDIO", "audio"),), hidden=HIDDEN,
    is_output=True, is_deprecated=True,
)  # fmt: skip
def save_audio(
    context: Context,
    audio: Annotated[Sound, socket("AUDIO")],
    filename_prefix: Annotated[str, text("audio/ComfyUI", multiline=False)],
) -> Result:
    """Save each sound of a batch without loss, with the prompt and the caller's metadata."""
    return _save(context, audio, filename_prefix, {"format": "flac"})


@node(
    "SaveAudioMP3", "Save Audio (MP3) (DEPRECATED)", "audio", outputs=(Output("AUDIO", "audio"),), hidden=HIDDEN,
    is_output=True, is_deprecated=True,
)  # fmt: skip
def save_audio_mp3(
    context: Context,
    audio: Annotated[Sound, socket("AUDIO")],
    filename_prefix: Annotated[str, text("audio/ComfyUI", multiline=False)],
    quality: Annotated[str, _MP3],
) -> Result:
    """Save each sound as MP3."""
    return _save(context, audio, filename_prefix, {"format": "mp3", "quality": quality})


@node(
    "SaveAudioOpus", "Save Audio (Opus) (DEPRECATED)", "audio", outputs=(Output("AUDIO", "audio"),), hidden=HIDDEN,
    is_output=True, is_deprecated=True,
)  # fmt: skip
def save_audio_opus(
    context: Context,
    audio: Annotated[Sound, socket("AUDIO")],
    filename_prefix: Annotated[str, text("audio/ComfyUI", multiline=False)],
    quality: Annotated[str, _OPUS],
) -> Result:
    """Save each sound as Opus."""
    return _save(context, audio, filename_prefix, {"format": "opus", "quality": quality})


@node(
    "SaveAudioAdvanced", "Save Audio (Advanced)", "audio", outputs=(Output("AUDIO", "audio"),), hidden=HIDDEN,
    is_output=True,
)  # fmt: skip
def save_audio_advanced(
    context: Context,
    audio: Annotated[Sound, socket("AUDIO")],
    filename_prefix: Annotated[str, text("audio/ComfyUI", multiline=False)],
    format: Annotated[Mapping[str, object], socket("COMFY_DYNAMICCOMBO_V3", options=_FORMATS)],  # noqa: A002 -- its name
) -> Result:
    """Save each sound as FLAC, MP3 or Opus."""
    return _save(context, audio, filename_prefix, format)


@node(
    "PreviewAudio", "Preview Audio", "audio", outputs=(Output("AUDIO", "audio"),), hidden=HIDDEN, is_output=True
)  # fmt: skip
def preview_audio(context: Context, audio: Annotated[Sound, socket("AUDIO")]) -> Result:
    """Save each sound for watchers only, under unique names."""
    letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))
    return _save(context, audio, f"ComfyUI_temp_{letters}", {"format": "flac"}, "temp")


def _save(context: Context, audio: Sound, prefix: str, wanted: Mapping[str, Any], kind: str = "output") -> Result:
    """Save the sounds of a batch one by one; `%batch_num%` in the prefix is the number of each."""
    waveform, rate = parts(audio)
    write = _writer(wanted, metadata(context))
    files = []
    for index, samples in enumerate(waveform):
        context.check()
        path, file = context.new_file(prefix.replace("%batch_num%", str(index)), wanted["format"], kind)
        write(path, samples, rate)
        files.append(file.as_ui())
    return Result((audio,), {"audio": files})


def _writer(wanted: Mapping[str, Any], texts: Mapping[str, object]) -> Callable[[Path, Array, int], None]:
    match wanted["format"]:
        case "mp3":
            return lambda path, samples, rate: sound_files.write_mp3(path, samples, rate, texts, wanted["quality"])
        case "opus":
            return lambda path, samples, rate: sound_files.write_opus(path, samples, rate, texts, wanted["quality"])
        case _:
            return lambda path, samples, rate: sound_files.write_flac(path, samples, rate, texts)


NODES: Final = (
    load_audio,
    record_audio,
    save_audio,
    save_audio_mp3,
    save_audio_opus,
    save_audio_advanced,
    preview_audio,
)
