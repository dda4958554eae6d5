"""A picture of a place: which layers it has, and in which order they lie."""

from typing import Final

import msgspec
import numpy as np

from fairlead_partners.procedural.noise import Canvas, Field, step
from fairlead_partners.procedural.seeds import generator

from . import city, figures, precipitation, sky, terrain, trees, water
from .layers import Layer, stack
from .light import Light, choose, colour
from .subject import Subject

_WET: Final = frozenset({"sea", "lake", "river", "harbour", "beach", "island"})
_RELIEFS: Final = ("mountain", "volcano", "canyon", "desert", "island", "hills", "meadow")
_HOMES: Final = {
    "camel": "desert", "giraffe": "meadow", "elephant": "meadow", "cow": "meadow", "sheep": "hills", "horse": "meadow",
    "deer": "forest", "wolf": "mountain", "bear": "forest", "palm": "beach", "lighthouse": "sea", "tent": "mountain",
    "windmill": "meadow", "castle": "hills", "balloon": "hills",
}  # fmt: skip
"""Where a figure is seen when the words name no place."""
_ANYWHERE: Final = ("hills", "mountain", "sea", "meadow", "lake")


class _Set(msgspec.Struct, frozen=True):
    """What does not move: what stands behind the water, the water's share and mirror, and what stands in front."""

    back: Layer | None
    water: Field | None
    mirror: float
    front: Layer | None


class Place:
    """Paints moments of one place; the layers that stand still are painted once, for the first of them."""

    def __init__(self, prompt: str, seed: int, subject: Subject) -> None:
        """Settle what the words leave open; nothing is painted yet."""
        rng = generator(prompt, seed, "place")
        self._subject = _complete(subject, rng)
        self._light: Light = choose(self._subject, rng)
        self._places = frozenset(self._subject.places)
        self._is_wet = bool(_WET & self._places)
        self._horizon = float(rng.uniform(0.52, 0.60) if self._is_wet else rng.uniform(0.62, 0.70))
        self._set: _Set | None = None

    def __call__(self, canvas: Canvas) -> Field:
        """Paint the moment `canvas.turn` of the loop."""
        if self._set is None:
            self._set = self._stand(canvas)
        light, subject, horizon, scene = self._light, self._subject, self._horizon, self._set
        airborne = [figure for figure in subject.figures if figure.kind in figures.AIRBORNE]
        afloat = [figure for figure in subject.figures if figure.kind in figures.AFLOAT]
        picture = sky.paint(canvas, light, subject, horizon)
        if scene.back is not None:
            picture = scene.back.over(picture)
        if scene.water is not None:
            water.flow(canvas, picture, scene.water, scene.mirror, horizon, light, subject)
        picture = precipitation.veil(canvas, picture, subject, light, horizon)
        picture = figures.fly(canvas, picture, airborne, light, horizon)
        picture = figures.sail(canvas, picture, afloat, light, horizon)
        if scene.front is not None:
            picture = scene.front.over(picture)
        return precipitation.fall(canvas, picture, subject, light)

    def _stand(self, canvas: Canvas) -> _Set:
        """Paint what stands still."""
        rng = canvas.rng("stand")
        relief = self._relief(rng)
        back, share, mirror = self._land(canvas, relief)
        is_wood = bool(_WOODS & self._places) and relief is None and not self._is_wet and not _CITY & self._places
        self._city(canvas, back)
        self._edge_of_wood(canvas, back, relief, rng, is_wood=is_wood)
        if self._is_wet:
            foot = self._foot()
            # What stands at the water's edge hides the land's own shore.
            mirror = mirror if foot is None else foot
            line = self._horizon if foot is None else foot
            if share is None or foot is not None:
                share = np.clip((canvas.y - line) / canvas.pixel + 0.5, 0, 1) + 0 * canvas.x
        front: list[Layer] = []
        if is_wood:
            pines = "pinewood" in self._places
            front.append(trees.wood(canvas, self._light, self._subject.season, self._horizon, pines=pines))
        front += self._foreground(canvas, rng, is_wood=is_wood)
        return _Set(stack(back), None if share is None else np.asarray(share, np.float32), mirror, stack(front))

    def _relief(self, rng: np.random.Generator) -> str | None:
        """Return the kind of land, or None where a wood, a city or open water is all there is."""
        relief = next((kind for kind in _RELIEFS if kind in self._places), None)
        is_far_coast = bool(rng.random() < 0.6)
        if relief is None and self._is_wet and not _CITY & self._places and is_far_coast:
            return "coast"
        return relief

    def _land(self, canvas: Canvas, relief: str | None) -> tuple[list[Layer], Field | None, float]:
        """Return the land as layers, the share of water in each pixel, and the row that the water mirrors at."""
        if relief is None:
            return [], None, self._horizon
        season = self._subject.season
        land = terrain.paint(canvas, self._light, relief, self._horizon, season=season, is_wet=self._is_wet)
        return [land.layer], land.water, self._horizon if relief in ("coast", "island") else land.shore

    def _foot(self) -> float | None:
        """Return the row that a city or a wood by the water stands on."""
        if _WOODS & self._places:
            return self._horizon + 0.05
        return self._horizon + 0.022 if _CITY & self._places else None

    def _city(self, canvas: Canvas, back: list[Layer]) -> None:
        if _CITY & self._places:
            is_village = "city" not in self._places
            back += city.skyline(canvas, self._light, self._horizon + 0.022, is_village=is_village)

    def _edge_of_wood(
        self, canvas: Canvas, back: list[Layer], relief: str | None, rng: np.random.Generator, *, is_wood: bool
    ) -> None:
        """Add a row of trees where a wood is one of several places, and at the end of many a meadow."""
        has_trees = bool(rng.random() < 0.6)
        if _WOODS & self._places and not is_wood:
            foot = self._foot() if self._is_wet else self._horizon + 0.10
            floor = self._is_wet or relief is None
        elif relief == "meadow" and not _CITY & self._places and has_trees:
            foot, floor = self._horizon + 0.012, False
        else:
            return
        pines = "pinewood" in self._places
        season = self._subject.season
        back.append(trees.edge(canvas, self._light, season, foot or self._horizon, pines=pines, floor=floor))

    def _foreground(self, canvas: Canvas, rng: np.random.Generator, *, is_wood: bool) -> list[Layer]:
        """Return the near ground and who stands on it."""
        subject, light = self._subject, self._light
        grounded = [f for f in subject.figures if f.kind not in figures.AFLOAT | figures.AIRBORNE]
        if any(figure.kind == "boat" for figure in subject.figures):
            # A person that is named with a boat sits in it.
            grounded = [figure for figure in grounded if figure.kind != "person"]
        if not grounded and "beach" not in subject.places:
            return []
        row = np.array([[rng.random()]], dtype=np.float32)
        form = canvas.smooth.sample(canvas.x * 0.3, row)
        edge = np.asarray(0.86 + 0.022 * form, dtype=np.float32)
        blades = 0.006 * np.abs(canvas.rough.sample(canvas.x * 3.1, row + 0.2))
        if subject.places and {"beach", "desert"} & set(subject.places):
            blades = blades * 0
        cover = np.clip((canvas.y - edge + blades) / canvas.pixel + 0.5, 0, 1)
        layers = [Layer(_near_ground(canvas, subject, light, edge), np.asarray(cover, np.float32))]
        scale = 0.20 if is_wood else 0.17
        return layers + figures.stand(canvas, grounded, light, edge, scale)


_SAYS_NO_WATER: Final = frozenset({"sea", "lake", "river"})
_WOODS: Final = frozenset({"forest", "pinewood"})
_CITY: Final = frozenset({"city", "village"})


def _near_ground(canvas: Canvas, subject: Subject, light: Light, edge: Field) -> Field:
    """Return the colour of the ground that figures stand on: nearly a silhouette, but for sand and snow."""
    code, share = "46562f", 0.30
    if "beach" in subject.places or "desert" in subject.places:
        code, share = "d8b888", 0.62
    if subject.season == "winter":
        code, share = "dfe8f2", 0.5
    day = {"noon": 1.3, "dawn": 0.7, "dusk": 0.5, "night": 0.25}[light.time]
    shine = light.ambient * 0.6 + light.sun * np.float32(0.5 * light.glow)
    fleck = 1 + 0.07 * canvas.rough.sample(canvas.x * 0.8, canvas.y * 2.2)
    depth = 1 - 0.45 * step(0.0, 0.3, canvas.y - edge)
    return np.asarray(
        colour(code) * shine * (fleck * depth)[..., None] * np.float32((0.35 + 0.65 * day) * share / 0.6),
        dtype=np.float32,
    )


def _complete(subject: Subject, rng: np.random.Generator) -> Subject:
    """Return the subject with a place, where the words name none, that suits what they do name."""
    places = list(subject.places)
    kinds = [figure.kind for figure in subject.figures]
    if any(kind in figures.AFLOAT for kind in kinds) and not _WET & set(places):
        places.append("lake" if places else "sea")
    if not places:
        home = next((_HOMES[kind] for kind in kinds if kind in _HOMES), None)
        allowed = [place for place in _ANYWHERE if place not in subject.refused]
        places.append(home or (str(rng.choice(allowed)) if allowed else "meadow"))
    # Water gives back what stands behind it: where nothing speaks against it, mountains and cities get some.
    if places in (["city"], ["mountain"]) and not _SAYS_NO_WATER & subject.refused:
        places += ["river"] if places == ["city"] else ["lake"] if rng.random() < 0.6 else []
    elif _CITY & set(places) and _WET.isdisjoint(places) and set(_RELIEFS).isdisjoint(places):
        places.append("meadow" if "city" in places else "hills")
    return msgspec.structs.replace(subject, places=tuple(places))
