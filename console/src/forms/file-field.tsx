import { FileUp, Trash2 } from "lucide-react";
import { useRef, useState } from "react";
import { Button, Field } from "../components/basics";
import { bytes } from "../format";
import { type FieldProperties, labelOf } from "./fields";
import { encodeFile, pictureSource } from "./files";
import { acceptOf, fileFormOf } from "./schema";
import "../styles/forms.css";

/** A file by drop, by choice or by paste, or a link to one. */
export function FileField(properties: FieldProperties) {
  const { name, schema, value, onChange, faults, path } = properties;
  const form = fileFormOf(schema);
  const accept = acceptOf(name, schema);
  const [isOver, setOver] = useState(false);
  const [problem, setProblem] = useState("");
  const chooser = useRef<HTMLInputElement>(null);
  const text = typeof value === "string" ? value : "";
  const isBytes = text.length > 2048 || text.startsWith("data:");
  const take = async (file: File | undefined) => {
    if (!file) {
      return;
    }
    const encoded = await encodeFile(file, form);
    const limit = schema.maxLength ?? Infinity;
    setProblem(encoded.length > limit ? `This file has ${bytes(file.size)}; the model takes about ${bytes(limit * 0.74)}.` : "");
    if (encoded.length <= limit) {
      onChange(encoded);
    }
  };
  const picture = pictureSource(value);
  return (
    <Field label={labelOf(properties)} hint={schema.description} fault={problem || faults[path]}>
      {(control) => (
        <div
          className={`drop ${isOver ? "over" : ""}`}
          onDragOver={(event) => {
            if (form !== "link") {
              event.preventDefault();
              setOver(true);
            }
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => {
            event.preventDefault();
            setOver(false);
            void take(event.dataTransfer.files[0]);
          }}
          onPaste={(event) => event.clipboardData.files[0] && form !== "link" && void take(event.clipboardData.files[0])}
        >
          {picture && <img className="chosen-picture" src={picture} alt="The chosen file" />}
          {isBytes && !picture && <span className="soft small">A file of about {bytes(text.length * 0.74)} is chosen.</span>}
          {form !== "link" && (
            <div className="row">
              <Button size="small" icon={FileUp} onClick={() => chooser.current?.click()}>
                {text ? "Choose another file" : "Choose a file"}
              </Button>
              {text ? (
                <Button size="small" look="quiet" icon={Trash2} onClick={() => onChange(undefined)}>
                  Remove
                </Button>
              ) : (
                <span className="soft small">or drop it here</span>
              )}
              <input ref={chooser} hidden type="file" accept={accept} onChange={(event) => {
                void take(event.target.files?.[0]);
                event.target.value = ""; // the same file may be chosen again, changed
              }} />
            </div>
          )}
          {!isBytes && (
            <input {...control} className="input" type="text" inputMode="url" placeholder={form === "link" ? "https://…" : "or a link: https://…"} value={text} onChange={(event) => onChange(event.target.value || undefined)} />
          )}
          {isBytes && <input {...control} type="hidden" value="file" />}
        </div>
      )}
    </Field>
  );
}
