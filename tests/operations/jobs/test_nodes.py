"""The classes of nodes there are, while the catalog of models changes (C-01)."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from catalog_samples import shipped_catalog
from engine.hosts.engines import running_engine, wait_for
from fairlead.domain.catalog.models import Catalog
from fairlead.domain.catalog.partner_nodes import partner_nodes_document
from fairlead.domain.deployments import PackSet
from fairlead.operations.jobs.nodes import NodeCatalog

_PACK: Final = """
class Late:
    RETURN_TYPES = ()
    FUNCTION = "run"
    CATEGORY = "made up"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    def run(self):
        return ()

NODE_CLASS_MAPPINGS = {"Late": Late}
"""
_PARTNERS: Final = "PartnerLocalProceduralImage1"


@pytest.mark.req("C-01")
def test_changed_catalog_changes_the_partner_nodes(tmp_path: Path) -> None:
    """A change of the catalog is followed, also where somebody asks before the next host is there."""
    whole = shipped_catalog()
    current = [Catalog("none", {})]
    with running_engine(tmp_path / "engine") as engine:
        nodes = NodeCatalog(
            engine.hosts, lambda: current[0], lambda catalog: partner_nodes_document(catalog.models.values())
        )

        async def follow() -> None:
            assert _PARTNERS not in (await nodes.object_info()).by_class
            current[0] = whole
            await nodes.follow_catalog()
            while _PARTNERS not in (await nodes.object_info()).by_class:  # noqa: ASYNC110 -- a process is waited for
                await asyncio.sleep(0.01)
            known = await nodes.object_info()
            assert await nodes.object_info() is known

        engine.run(wait_for(follow()))


@pytest.mark.parametrize(("packs", "has_pack"), [((), False), (None, True)])
def test_classes_are_those_of_the_pack_set(tmp_path: Path, packs: PackSet, *, has_pack: bool) -> None:
    """Without packs only the engine's own nodes are listed."""
    with running_engine(tmp_path / "engine") as engine:
        nodes = NodeCatalog(engine.hosts, lambda: Catalog("none", {}), lambda _: b"[]")
        found = engine.run(wait_for(nodes.classes(packs)))
        assert "SaveImage" in found
        assert ("Talkative" in found) is has_pack


def test_pack_that_was_added_is_listed_after_the_next_release(tmp_path: Path) -> None:
    """What the packs' folder has gained is among the classes once a release with every pack is prepared."""
    packs = tmp_path / "node_packs"
    packs.mkdir()
    with running_engine(tmp_path / "engine", packs=(str(packs),)) as engine:
        nodes = NodeCatalog(engine.hosts, lambda: Catalog("none", {}), lambda _: b"[]")
        assert "Late" not in engine.run(wait_for(nodes.classes(None)))
        (packs / "late.py").write_text(_PACK)
        engine.run(wait_for(engine.hosts.prepare(None, again=True)))
        assert "Late" in engine.run(wait_for(nodes.classes(None)))
