"""Cannot be imported."""

raise RuntimeError("this pack is broken")
