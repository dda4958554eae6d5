class Darker:
    CATEGORY = "image/mine"
    FUNCTION = "run"
    RETURN_TYPES = ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "amount": ("FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0})}}

    def run(self, image, amount):
        return (image * (1 - amount),)


NODE_CLASS_MAPPINGS = {"Darker": Darker}
