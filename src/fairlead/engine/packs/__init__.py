"""Node packs: strangers' nodes, loaded from folders inside host processes, unmodified."""
