"""Pictures, videos and sounds: arrays in memory, and the files they are in.

`Array` (arrays) and the bounds on its size; `pictures` and `exr` for images, `Clip` (clips) for videos, `Sound`
(sounds) and `sound_files` for sounds; `mp4`, `webm` and `ogg` for containers. Imports nothing of Fairlead. Work and
memory stay in proportion to the size of a file, whatever the file claims.
"""
