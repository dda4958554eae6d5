"""A pack with nothing wrong."""


class GoodNode:
    """Gives one."""

    RETURN_TYPES = ("INT",)
    FUNCTION = "run"
    CATEGORY = "good"

    @classmethod
    def INPUT_TYPES(cls):
        """Take nothing."""
        return {"required": {}}

    def run(self):
        """Give one."""
        return (1,)


NODE_CLASS_MAPPINGS = {"GoodNode": GoodNode}
