"""Pictures of places: what a prompt names is read into a subject, and painted from the far sky to the near rain.

`subject.read` turns words into places, figures, weather, time of day, season and colours, as far as they are named;
`light.choose` turns those into the colours of sky, sun and haze; `place.Place` composes the layers of a picture:

- `sky`: gradient, sun or moon, stars, clouds, aurora, rainbow, lightning;
- `terrain`: mountains, hills, dunes and islands, a height field seen in perspective;
- `city` and `trees`: drawn layer behind layer;
- `water`: mirrors what stands behind it;
- `figures`: people, animals, boats and houses as silhouettes;
- `precipitation`: fog, rain and snow in front of all that.

Everything random comes from the prompt and the seed, and time is a circle, so a clip ends where it began. Layers that
do not move are painted once for a clip. Nothing here knows HTTP, and nothing here is a neural network.
"""
