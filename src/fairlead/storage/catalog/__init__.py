"""Files of the catalog (docs/catalog-files.md), read into records of the domain, or refused with their place.

    reader  load_catalog: one TOML file a model, its schemas beside it as JSON; fingerprint says whether files changed
    files   the shape of a model file
    rates   its rate cards
    strict  what it says of bodies in a provider's own form

It imports no other package of storage. What a file lacks is refused here, never guessed later.
"""
