import asyncio

from fractions import Fraction

from comfy_api.latest import ComfyAPI, ComfyAPISync, ComfyExtension, Input, InputImpl, Types, io, ui


class Blend(io.ComfyNode):
    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="PartyBlend",
            display_name=None,
            category="third party/schema",
            description="Mixes two pictures.",
            inputs=[
                io.Image.Input("a", tooltip="the first"),
                io.Image.Input("b", optional=True),
                io.Float.Input("part", default=0.5, min=0.0, max=1.0, step=0.1, display_mode=io.NumberDisplay.slider),
                io.Combo.Input("mode", options=["mix", "add"], default="mix"),
            ],
            outputs=[io.Image.Output(display_name="mixed", tooltip="both")],
            hidden=[io.Hidden.unique_id],
            is_output_node=True,
        )

    @classmethod
    def execute(cls, a, part, mode, b=None) -> io.NodeOutput:
        assert cls.hidden.unique_id and cls.hidden.prompt[cls.hidden.unique_id]["class_type"] == "PartyBlend"
        assert cls.hidden.auth_token_comfy_org is None
        ComfyAPISync().execution.set_progress(1, 2)
        mixed = a if b is None else a * (1 - part) + b * part
        return io.NodeOutput(mixed, ui=ui.PreviewImage(mixed, cls=cls))


class Join(io.ComfyNode):
    """Inputs that grow, a choice with inputs of its own, a type that is matched, a lazy one."""

    @classmethod
    def define_schema(cls):
        template = io.MatchType.Template("any")
        return io.Schema(
            node_id="PartyJoin",
            display_name="Join",
            category="third party/schema",
            inputs=[
                io.Autogrow.Input(
                    "parts", template=io.Autogrow.TemplatePrefix(io.String.Input("part"), prefix="part", min=1, max=5)
                ),
                io.DynamicCombo.Input(
                    "how",
                    options=[
                        io.DynamicCombo.Option("plain", []),
                        io.DynamicCombo.Option("between", [io.String.Input("separator", default="-")]),
                    ],
                ),
                io.MatchType.Input("echo", template=template, lazy=True, optional=True),
                io.MultiType.Input("size", [io.Int, io.Float], optional=True),
                io.Custom("THIRD_PARTY").Input("other", optional=True),
            ],
            outputs=[io.String.Output("joined"), io.MatchType.Output(template, display_name="echo")],
        )

    @classmethod
    def check_lazy_status(cls, how, echo=None, **kwargs):
        return ["echo"] if how["how"] == "between" and echo is None else []

    @classmethod
    def execute(cls, parts, how, echo=None, size=None, other=None):
        return io.NodeOutput(how.get("separator", "").join(parts.values()), echo)


class Text(io.ComfyNode):
    world = 0

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="PartyText",
            category="third party/schema",
            inputs=[io.String.Input("text", multiline=True)],
            outputs=[io.String.Output()],
            is_output_node=True,
            is_experimental=True,
        )

    @classmethod
    def validate_inputs(cls, text):
        return "it is empty" if text == "" else True

    @classmethod
    def fingerprint_inputs(cls, text):
        return Text.world

    @classmethod
    async def execute(cls, text):
        cls.written_on_the_copy = True
        await ComfyAPI().execution.set_progress(0.5, 1.0)
        await asyncio.sleep(0)
        assert not hasattr(Text, "written_on_the_copy")
        if text == "block":
            return io.NodeOutput(block_execution="blocked by the schema")
        return io.NodeOutput(text, ui=ui.PreviewText(text))


class Grow(io.ComfyNode):
    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="PartyGrow",
            category="third party/schema",
            inputs=[io.Int.Input("value", default=1)],
            outputs=[io.Int.Output()],
            enable_expand=True,
            not_idempotent=True,
        )

    @classmethod
    def execute(cls, value):
        graph = {"inner": {"class_type": "PartyNumber", "inputs": {"value": value + 1}}}
        return io.NodeOutput(["inner", 0], expand=graph)


class Film(io.ComfyNode):
    """Makes a film of pictures, and a shorter one of another."""

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="PartyFilm",
            category="third party/schema",
            inputs=[io.Image.Input("images"), io.Video.Input("other", optional=True)],
            outputs=[io.Video.Output(), io.Int.Output(display_name="frames")],
        )

    @classmethod
    def execute(cls, images, other=None):
        made = InputImpl.VideoFromComponents(Types.VideoComponents(images=images, frame_rate=Fraction(4)))
        if other is not None:
            assert isinstance(other, Input.Video)
            assert other.get_dimensions() == made.get_dimensions()
            made = other.as_trimmed(0, 0.5)
        return io.NodeOutput(made, len(made.get_components().images))


class Saved(io.ComfyNode):
    """Saves with the helpers, and shows a sound and a mask."""

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="PartySaved",
            category="third party/schema",
            inputs=[
                io.Image.Input("images"),
                io.Combo.Input("what", options=["images", "animation", "audio", "sound", "mask"]),
            ],
            is_output_node=True,
        )

    @classmethod
    def execute(cls, images, what):
        sound = {"waveform": images[None, 0, :1, :, 0], "sample_rate": 8000}
        match what:
            case "images":
                shown = ui.ImageSaveHelper.get_save_images_ui(images, "saved", cls=cls)
            case "animation":
                one = ui.ImageSaveHelper.save_animated_webp(images, "moving", io.FolderType.output, cls, 6, True, 80, 0)
                shown = ui.SavedImages([one], is_animated=True)
            case "audio":
                shown = ui.AudioSaveHelper.get_save_audio_ui(sound, "heard", cls=cls)
            case "sound":
                shown = ui.PreviewAudio(sound, cls=cls)
            case "mask":
                shown = ui.PreviewMask(images[..., 0], cls=cls)
        return io.NodeOutput(ui=shown)


class PartyExtension(ComfyExtension):
    async def on_load(self):
        self.is_loaded = True

    async def get_node_list(self):
        assert self.is_loaded
        return [Blend, Join, Text, Grow, Film, Saved]


async def comfy_entrypoint():
    return PartyExtension()
