"""The words that the pictures understand, by what they mean; a plural is understood where its singular is."""

from typing import Final


def _table(meanings: dict[str, str]) -> dict[str, str]:
    return {word: meaning for meaning, words in meanings.items() for word in f"{meaning} {words}".split()}


PLACES: Final = _table(
    {
        "sea": "ocean seaside seascape coast coastal shore shoreline bay surf wave waves maritime nautical cape",
        "lake": "water pond lagoon reservoir loch fjord tarn mirror",
        "river": "stream brook creek canal",
        "harbour": "harbor port marina dock docks pier quay jetty",
        "beach": "beaches seashore strand sand",
        "island": "isle atoll archipelago",
        "mountain": "alp alps alpine peak summit ridge highland himalaya andes range",
        "volcano": "volcanoes crater",
        "hills": "hill countryside vineyard downs knoll valley landscape dale",
        "canyon": "gorge ravine mesa butte",
        "desert": "dune dunes sahara oasis",
        "meadow": "field fields prairie grassland savanna savannah steppe pasture farmland tundra garden park",
        "forest": "blossom cherry sakura woods wood woodland grove orchard jungle rainforest birch",
        "pinewood": "taiga pine fir spruce conifer evergreen",
        "city": "cityscape town skyline downtown metropolis urban skyscraper manhattan tokyo streets street london",
        "village": "hamlet settlement",
    }
)

FIGURES: Final = _table(
    {
        "person": "couple lovers newlyweds man woman human figure traveller traveler wanderer hiker someone girl boy "
        "silhouette people crowd men women persons astronaut fisherman monk wizard knight",
        "child": "children kid toddler",
        "rider": "horseman cowboy horsewoman",
        "dog": "puppy hound",
        "wolf": "wolves coyote jackal",
        "fox": "vixen",
        "cat": "kitten kitty",
        "horse": "stallion mare pony",
        "deer": "stag elk reindeer moose doe",
        "elephant": "mammoth",
        "giraffe": "",
        "camel": "dromedary caravan",
        "bear": "",
        "cow": "cattle bull ox",
        "sheep": "lamb goat",
        "rabbit": "bunny hare",
        "bird": "gull seagull eagle hawk swallow geese goose flock raven crow",
        "owl": "",
        "whale": "orca",
        "dolphin": "",
        "sailboat": "sailing sail yacht regatta",
        "boat": "rowboat canoe kayak gondola dinghy",
        "ship": "steamer freighter ferry galleon vessel",
        "lighthouse": "beacon",
        "house": "cottage cabin hut farmhouse home barn chalet",
        "castle": "fortress palace tower citadel",
        "windmill": "mill",
        "church": "chapel cathedral",
        "tent": "camp camping campsite",
        "balloon": "airship",
        "tree": "oak willow",
        "palm": "coconut",
    }
)

CONDITIONS: Final = _table(
    {
        "rain": "rainy drizzle raining monsoon shower downpour wet",
        "snow": "snowing snowfall blizzard flurries snowstorm",
        "fog": "foggy mist misty haze hazy",
        "storm": "stormy thunderstorm thunder tempest hurricane typhoon gale",
        "clear": "cloudless sunny bright",
        "cloudy": "overcast clouds cloud gloomy grey gray",
    }
)

SKIES: Final = _table(
    {
        "moon": "moonlight moonlit moonrise crescent lunar",
        "stars": "star starry stargazing constellation milky starlight",
        "sun": "sunshine sunlight",
        "aurora": "northern borealis australis polar",
        "rainbow": "",
        "lightning": "thunderbolt thunderstorm thunder",
    }
)

TIMES: Final = _table(
    {
        "dawn": "sunrise daybreak morning",
        "noon": "midday day daytime daylight afternoon sunny sunshine",
        "dusk": "sunset evening twilight sundown golden nightfall",
        "night": "midnight nighttime nocturnal",
    }
)

SEASONS: Final = _table(
    {
        "spring": "springtime blossom blossoms cherry sakura bloom",
        "summer": "summertime tropical",
        "autumn": "fall autumnal october november",
        "winter": "wintry icy frozen frosty ice december january arctic snowy snow snowing blizzard glacier",
    }
)

COLOURS: Final = {
    word: colour
    for colour, words in {
        "c8352e": "red crimson scarlet ruby",
        "ee8a2a": "orange amber tangerine",
        "f0c63c": "yellow golden gold",
        "3d9a4e": "green emerald",
        "2f9c9a": "teal turquoise cyan aqua",
        "2f62c8": "blue azure sapphire indigo",
        "7d4bb8": "purple violet lavender",
        "e77aa8": "pink rose magenta",
        "8a5a33": "brown chocolate",
        "17171b": "black",
        "f4f3ee": "white",
    }.items()
    for word in words.split()
}
"""Colours as hexadecimal sRGB, by their names."""

MANY: Final = {
    "two": 2,
    "pair": 2,
    "people": 3,
    "men": 2,
    "women": 2,
    "children": 2,
    "wolves": 3,
    "sheep": 4,
    "cattle": 4,
    "geese": 7,
    "couple": 2,
    "lovers": 2,
    "newlyweds": 2,
    "three": 3,
    "few": 3,
    "four": 4,
    "several": 4,
    "five": 5,
    "herd": 5,
    "group": 4,
    "many": 6,
    "fleet": 5,
    "flock": 9,
    "crowd": 7,
}
