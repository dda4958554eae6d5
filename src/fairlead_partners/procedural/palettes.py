"""Colours by word: five stops from dark to light and one accent, each a hexadecimal sRGB colour."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from .seeds import words

Colours = NDArray[np.floating[Any]]

RAMP_STEPS = 1024

_STOPS = {
    "sunset": "1a1037 5b2166 c23b67 f5835a fcd9a0 ff5e4d",
    "dawn": "23304f 6a5f8d c98fa0 f4bfa5 fdebd3 f78f7f",
    "night": "05081a 0f1d40 23407a 5f83bd c9dcf5 f4e9b5",
    "ocean": "03182f 0a3f66 137d9b 5cc2c5 e2f6ee f2b872",
    "forest": "0b1a12 1d3d26 3f6b3a 8aa65a e4e6b4 d9822b",
    "gold": "1c1206 573410 a8701c e3b04b fbeebf fff3c4",
    "desert": "2d1420 7a3326 c96f3b e9b16f fae6c4 3d8f92",
    "fire": "140406 5a0c0c b8260f f4781d fde28a fff1bf",
    "ice": "0d2238 2e5d86 73a9c9 bfdfea f7fcff 8f7fd1",
    "winter": "1c2740 4a6284 8fa9c1 cfdce6 fbfdff c9585f",
    "spring": "244a3a 5f9d5d a9d07f f3c6d3 fff4ee e8618c",
    "summer": "0f4c5c 1f9e9b 7fd1a4 ffd76e fff3cf fb6b4b",
    "autumn": "2a120e 6b2a16 b5561f e09a3c f8e1a9 7d2e3d",
    "rose": "2b0a1a 7a1f44 c9527a f2a0ae fde6e1 f0c05a",
    "lavender": "1f1638 51408a 8f7cc5 c8b9e6 f5effb f2a6b3",
    "neon": "0a0420 3a0a6b c2129c 19c3e6 e8fbff f9f871",
    "candy": "3a1d5c 9a3f9c f277ad ffb9c8 fff3e6 5ed3d0",
    "coffee": "160d09 40271b 7a5236 b98d66 f0dfc8 d86f45",
    "mint": "0c2f2c 1f6e62 5fb89a b0e2c4 f3fcf2 f28b6a",
    "peach": "48263a 9c4e5b e88d7a fbc5a4 fff0e0 5a9aa8",
    "emerald": "03211c 07523f 12906a 66cf9b e0f8e6 f2cf63",
    "ruby": "1c0308 5e0717 a81230 e5566a fbd3cf f0b95b",
    "sapphire": "040b2c 0c2470 1f4dc0 6b9bf0 dfebff f5c86b",
    "amber": "231004 6d3305 bb6a0c f0a93a fdeab2 4d7f86",
    "coral": "2a1436 7c2f55 e4576a ff9b83 ffe4d3 2fa39c",
    "storm": "0e141c 2c3a4a 576b7e 93a5b0 dfe6e7 e8d06a",
    "mist": "2b343c 5c6b74 95a3a8 c8d0d0 f4f4ef cf8f6b",
    "space": "04030f 1b1147 5a2a8c c0569f fbd0c5 7fd6f2",
    "aurora": "040d1c 0b3142 14806e 6fe0a0 e9fbd8 b06bf0",
    "jungle": "061a14 12442f 2f7f3c 93b93f f0efad e85d4a",
    "lava": "0d0506 3f0a10 9c1c12 f2571b ffd166 fff0b8",
    "pastel": "5d5a88 9d8fbf d8b4cf f7d3c8 fdf5e2 8fc9c0",
    "vintage": "2b2320 6b4d3c a98460 d5bf95 f5ead0 4d7c78",
    "noir": "060607 222326 55575c a0a2a6 f2f2f0 c0332f",
    "sakura": "2c2137 6f4d75 c583a3 f4bdcb fdf0ef 7fa88f",
    "city": "0a0e22 23284f 6b3f7d e0708a ffd9a8 45d0e0",
}

_SAME = {
    "dusk": "sunset", "evening": "sunset", "sunrise": "dawn", "morning": "dawn", "midnight": "night",
    "moon": "night", "moonlight": "night", "sea": "ocean", "water": "ocean", "lake": "ocean",
    "river": "ocean", "beach": "ocean", "blue": "sapphire", "woods": "forest", "tree": "forest",
    "trees": "forest", "green": "emerald", "leaves": "autumn", "golden": "gold", "yellow": "amber",
    "honey": "amber", "sand": "desert", "dunes": "desert", "dune": "desert", "canyon": "desert",
    "flame": "fire", "burning": "fire", "ember": "lava", "volcano": "lava", "frozen": "ice",
    "glacier": "ice", "snow": "winter", "meadow": "spring", "garden": "spring", "fall": "autumn",
    "pink": "rose", "love": "rose", "flower": "sakura", "flowers": "sakura", "blossom": "sakura",
    "purple": "lavender", "violet": "lavender", "cyberpunk": "neon", "electric": "neon",
    "wood": "coffee", "brown": "coffee", "chocolate": "coffee", "orange": "peach", "red": "ruby",
    "reef": "coral", "rain": "storm", "thunder": "storm", "cloud": "mist", "clouds": "mist",
    "fog": "mist", "grey": "mist", "gray": "mist", "galaxy": "space", "nebula": "space",
    "cosmic": "space", "stars": "space", "planet": "space", "northern": "aurora", "soft": "pastel",
    "dream": "pastel", "old": "vintage", "retro": "vintage", "sepia": "vintage", "dark": "noir",
    "mono": "noir", "cherry": "sakura", "street": "city", "urban": "city", "skyline": "city",
}  # fmt: skip


class Palette(msgspec.Struct, frozen=True):
    """Colours as linear steps from dark to light (0 to 1 per channel) and one accent."""

    ramp: Colours
    stops: Colours
    accent: Colours

    def at(self, position: Colours) -> Colours:
        """Return the colour for each position, 0 dark to 1 light, as an array with three channels."""
        index = np.clip(position * (RAMP_STEPS - 1), 0, RAMP_STEPS - 1).astype(np.intp)
        return np.take(self.ramp, index, axis=0)


def find_palette(prompt: str) -> Palette | None:
    """Return the palette of the first word that has one; a second such word gives its accent."""
    found = [_SAME.get(word, word) for word in words(prompt)]
    names = [name for name in found if name in _STOPS]
    if not names:
        return None
    other = next((name for name in names if name != names[0]), names[0])
    return _palette(_STOPS[names[0]], _STOPS[other])


def choose(prompt: str, rng: np.random.Generator) -> Palette:
    """Return the palette the words ask for, or one by chance."""
    palette = find_palette(prompt)
    drawn = str(rng.choice(list(_STOPS)))
    return _palette(_STOPS[drawn], _STOPS[drawn]) if palette is None else palette


def _palette(colours: str, accents: str) -> Palette:
    stops = np.array([_rgb(code) for code in colours.split()[:5]], dtype=np.float32)
    places = np.linspace(0, 1, RAMP_STEPS)
    channels = [np.interp(places, np.linspace(0, 1, 5), stops[:, channel]) for channel in range(3)]
    ramp = np.stack(channels, axis=-1).astype(np.float32)
    return Palette(ramp, stops, np.array(_rgb(accents.split()[5]), dtype=np.float32))


def _rgb(code: str) -> tuple[float, float, float]:
    return int(code[0:2], 16) / 255, int(code[2:4], 16) / 255, int(code[4:6], 16) / 255
