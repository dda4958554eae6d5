"""Loops: nodes that put copies of a part of the graph in their places until a condition is false."""

from comfy_execution.graph_utils import GraphBuilder, is_link
from nodes import NODE_CLASS_MAPPINGS as ALL_CLASSES


class WhileOpen:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"condition": ("BOOLEAN", {"default": True})}, "optional": {"value": ("*",)}}

    RETURN_TYPES = ("FLOW", "*")
    RETURN_NAMES = ("FLOW", "value")
    FUNCTION = "open"
    CATEGORY = "third party/flow"

    def open(self, condition, value=None):
        return ("stub", value)


class WhileClose:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"flow": ("FLOW", {"rawLink": True}), "condition": ("BOOLEAN", {"forceInput": True})},
            "optional": {"value": ("*",)},
            "hidden": {"dynprompt": "DYNPROMPT", "unique_id": "UNIQUE_ID"},
        }

    RETURN_TYPES = ("*",)
    FUNCTION = "close"
    CATEGORY = "third party/flow"

    def users(self, node_id, dynprompt, found):
        for value in dynprompt.get_node(node_id)["inputs"].values():
            if is_link(value):
                found.setdefault(value[0], []).append(node_id)
                if len(found[value[0]]) == 1:
                    self.users(value[0], dynprompt, found)

    def collect_contained(self, node_id, found, chosen):
        for user in found.get(node_id, []):
            if user not in chosen:
                chosen.add(user)
                self.collect_contained(user, found, chosen)

    def close(self, flow, condition, dynprompt, unique_id, value=None):
        if not condition:
            return (value,)
        found, chosen = {}, {unique_id, flow[0]}
        self.users(unique_id, dynprompt, found)
        self.collect_contained(flow[0], found, chosen)
        graph = GraphBuilder()
        for node_id in chosen:
            original = dynprompt.get_node(node_id)
            assert original["class_type"] in ALL_CLASSES
            node = graph.node(original["class_type"], "Again" if node_id == unique_id else node_id)
            node.set_override_display_id(node_id)
        for node_id in chosen:
            node = graph.lookup_node("Again" if node_id == unique_id else node_id)
            for name, given in dynprompt.get_node(node_id)["inputs"].items():
                if is_link(given) and given[0] in chosen:
                    parent = graph.lookup_node(given[0])
                    node.set_input(name, parent.out(given[1]))
                else:
                    node.set_input(name, given)
        graph.lookup_node(flow[0]).set_input("value", value)
        return {"result": (graph.lookup_node("Again").out(0),), "expand": graph.finalize()}


class CountedOpen:
    """Counts its turns by an input that nobody sees, and leaves a word in the graph for the end of the loop."""

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"turns": ("INT", {"default": 3})},
            "hidden": {"dynprompt": "DYNPROMPT", "unique_id": "UNIQUE_ID", "turn": ("INT", {"default": 0})},
        }

    RETURN_TYPES = ("FLOW", "INT")
    FUNCTION = "open"
    CATEGORY = "third party/flow"

    def open(self, turns, dynprompt, unique_id, turn=0):
        dynprompt.get_node(unique_id)["turns"] = turns
        return ["stub", turn]


class CountedClose:
    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"flow": ("FLOW", {"rawLink": True}), "value": ("INT", {"forceInput": True})},
            "hidden": {"dynprompt": "DYNPROMPT", "unique_id": "UNIQUE_ID", "total": "INT", "turn": ("INT", {})},
        }

    RETURN_TYPES = ("INT",)
    FUNCTION = "close"
    CATEGORY = "third party/flow"

    def close(self, flow, value, dynprompt, unique_id, total=0, turn=0):
        opened = dynprompt.get_node(flow[0])
        if turn + 1 >= opened["turns"]:
            return [total + value]
        graph = GraphBuilder()
        start = graph.node("PartyCountedOpen", turns=opened["turns"], turn=turn + 1)
        end = graph.node("PartyCountedClose", flow=start.out(0), value=start.out(1), total=total + value, turn=turn + 1)
        return {"result": [end.out(0)], "expand": graph.finalize()}


class Minus:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("*",), "by": ("INT", {"default": 1})}}

    RETURN_TYPES = ("INT", "BOOLEAN")
    FUNCTION = "minus"
    CATEGORY = "third party/flow"

    def minus(self, value, by):
        return (value - by, value - by > 0)


class TwoGraphs:
    """Two graphs in one call, with the same names in both."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("INT", {"default": 1})}}

    RETURN_TYPES = ("INT", "INT")
    FUNCTION = "make"
    CATEGORY = "third party/flow"

    def make(self, value):
        first, second = GraphBuilder(), GraphBuilder()
        one = first.node("PartyNumber", value=value)
        two = second.node("PartyNumber", value=value + 1)
        return {"result": (one.out(0), two.out(0)), "expand": {**first.finalize(), **second.finalize()}}


NODE_CLASS_MAPPINGS = {"PartyWhileOpen": WhileOpen, "PartyWhileClose": WhileClose, "PartyMinus": Minus,
                       "PartyTwoGraphs": TwoGraphs, "PartyCountedOpen": CountedOpen,
                       "PartyCountedClose": CountedClose}
