import { Brush, Eraser, Trash2 } from "lucide-react";
import { type PointerEvent, useEffect, useRef, useState } from "react";
import { Button, Hint } from "../components/basics";
import { words } from "../format";
import type { FieldProperties } from "./fields";
import { FileField } from "./file-field";
import { pictureSource } from "./files";
import { type JsonSchema, fileFormOf } from "./schema";

/** A mask that is drawn over the picture of the same body; without one it is a file like others. */
export function MaskField(properties: FieldProperties) {
  const { siblings = {}, schema } = properties;
  const picture = Object.entries(siblings)
    .filter(([name]) => !/mask/i.test(name))
    .map(([, value]) => pictureSource(Array.isArray(value) ? value[0] : value))
    .find(Boolean);
  if (!picture || fileFormOf(schema) === "link") {
    return (
      <div className="stack tight">
        <FileField {...properties} />
        {!properties.value && fileFormOf(schema) !== "link" && <p className="hint soft small">Choose the picture first, then draw the mask over it.</p>}
      </div>
    );
  }
  return <Drawing {...properties} picture={picture} />;
}

/** Whether the marked part becomes transparent, rather than white on black. */
function isByAlpha(schema: JsonSchema): boolean {
  return /transparent|alpha/i.test(schema.description ?? "");
}

function Drawing({ name, schema, onChange, faults, path, picture }: FieldProperties & { picture: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [brush, setBrush] = useState(40);
  const [isErasing, setErasing] = useState(false);
  const last = useRef<[number, number] | null>(null);
  useEffect(() => {
    const image = new Image();
    image.onload = () => setSize({ width: image.naturalWidth, height: image.naturalHeight });
    image.src = picture;
  }, [picture]);

  const place = (event: PointerEvent<HTMLCanvasElement>): [number, number] => {
    const box = event.currentTarget.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * size.width, ((event.clientY - box.top) / box.height) * size.height];
  };
  const draw = (to: [number, number]) => {
    const context = canvas.current?.getContext("2d");
    if (!context) {
      return;
    }
    const from = last.current ?? to;
    context.globalCompositeOperation = isErasing ? "destination-out" : "source-over";
    context.lineCap = "round";
    context.lineWidth = (brush / 400) * Math.max(size.width, size.height);
    context.strokeStyle = "#fff";
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
    last.current = to;
  };
  const finish = () => {
    if (last.current && canvas.current) {
      last.current = null;
      const uri = maskOf(canvas.current, isByAlpha(schema));
      onChange(fileFormOf(schema) === "base64" ? uri.slice(uri.indexOf(",") + 1) : uri);
    }
  };
  const clear = () => {
    canvas.current?.getContext("2d")?.clearRect(0, 0, size.width, size.height);
    onChange(undefined);
  };
  return (
    <div className="field" role="group" aria-label={words(name)}>
      <span className="label">{words(name)}</span>
      <Hint>{`Paint over the part that should change. ${schema.description ?? ""}`}</Hint>
      <div className="mask">
        <img src={picture} alt="The picture under the mask" />
        <canvas
          ref={canvas}
          width={size.width}
          height={size.height}
          role="img"
          aria-label="Paint over the part that should change; with the keyboard, use the button Mark all below"
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            draw(place(event));
          }}
          onPointerMove={(event) => last.current && draw(place(event))}
          onPointerUp={finish}
          onPointerCancel={finish}
        />
      </div>
      <div className="row">
        <Button size="small" icon={isErasing ? Eraser : Brush} aria-pressed={isErasing} onClick={() => setErasing(!isErasing)}>
          {isErasing ? "Erasing" : "Marking"}
        </Button>
        <label className="row small">
          Brush <input type="range" min={4} max={160} value={brush} onChange={(event) => setBrush(Number(event.target.value))} />
        </label>
        <Button
          size="small"
          onClick={() => {
            const context = canvas.current?.getContext("2d");
            if (context) {
              context.globalCompositeOperation = "source-over";
              context.fillStyle = "#fff";
              context.fillRect(0, 0, size.width, size.height);
              last.current = [0, 0];
              finish();
            }
          }}
        >
          Mark all
        </Button>
        <Button size="small" look="quiet" icon={Trash2} onClick={clear}>
          Clear
        </Button>
      </div>
      {faults[path] && <p className="fault" role="alert">{faults[path]}</p>}
    </div>
  );
}

/** The mask as PNG: white on black, or a picture that is transparent where something was marked. */
function maskOf(drawn: HTMLCanvasElement, isByAlphaChannel: boolean): string {
  const made = document.createElement("canvas");
  made.width = drawn.width;
  made.height = drawn.height;
  const context = made.getContext("2d")!;
  context.fillStyle = "#000";
  context.fillRect(0, 0, made.width, made.height);
  context.globalCompositeOperation = isByAlphaChannel ? "destination-out" : "source-over";
  context.drawImage(drawn, 0, 0);
  return made.toDataURL("image/png");
}
