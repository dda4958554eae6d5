import { FileUp } from "lucide-react";
import { useRef, useState } from "react";
import { send } from "../api/client";
import { Fault } from "../api/faults";
import { Button, Field } from "../components/basics";
import { words } from "../format";
import { SchemaField } from "../forms/fields";
import type { JsonSchema } from "../forms/schema";
import { type InputSpec, type NodeClass, type Workflow, isLink, titleOf } from "./workflow";

interface InputsProperties {
  workflow: Workflow;
  classes: Record<string, NodeClass>;
  onChange: (workflow: Workflow) => void;
  faults: Readonly<Record<string, string>>;
}

/** A form of everything in a workflow that is not linked to another node. */
export function WorkflowInputs({ workflow, classes, onChange, faults }: InputsProperties) {
  return (
    <div className="stack">
      {Object.entries(workflow).map(([id, node]) => {
        const specs = { ...classes[node.class_type]?.input.required, ...classes[node.class_type]?.input.optional };
        const own = Object.entries(node.inputs).filter(([, value]) => !isLink(value));
        const general = faults[`${id}/`];
        if (own.length === 0 && !general) {
          return null;
        }
        const set = (name: string, value: unknown) => onChange({ ...workflow, [id]: { ...node, inputs: { ...node.inputs, [name]: value ?? "" } } });
        return (
          <fieldset className="field" key={id}>
            <legend>
              {titleOf(node, classes)} <span className="soft">({id})</span>
            </legend>
            {general && <p className="fault" role="alert">{general}</p>}
            <div className="form-grid">
              {own.map(([name, value]) =>
                specs[name]?.[1]?.image_upload || (specs[name]?.[1] as any)?.file_upload || /^Load(Image|Video|Audio)/.test(node.class_type) ? (
                  <UploadField key={name} name={name} value={value} fault={faults[`${id}/${name}`]} onChange={(next) => set(name, next)} />
                ) : (
                  <SchemaField key={name} name={name} schema={schemaOf(specs[name], value)} value={value} path={`${id}/${name}`} faults={faults} onChange={(next) => set(name, next)} />
                ),
              )}
            </div>
          </fieldset>
        );
      })}
    </div>
  );
}

/** What an input of a node takes, as JSON Schema. */
function schemaOf(spec: InputSpec | undefined, value: unknown): JsonSchema {
  const [type, about = {}] = spec ?? [typeof value === "string" ? "STRING" : typeof value === "number" ? "FLOAT" : typeof value === "boolean" ? "BOOLEAN" : "*"];
  const description: string | undefined = about.tooltip;
  const options = Array.isArray(type) ? type : type === "COMBO" ? about.options : null;
  if (Array.isArray(options)) {
    return { enum: options, description };
  }
  const bounds = { minimum: bound(about.min), maximum: bound(about.max) };
  switch (type) {
    case "INT":
      return { type: "integer", description, ...bounds };
    case "FLOAT":
      return { type: "number", description, ...bounds };
    case "BOOLEAN":
      return { type: "boolean", description };
    case "STRING":
      return { type: "string", description };
    default:
      return { description };
  }
}

function bound(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(Math.trunc(value)) ? value : undefined;
}

function UploadField({ name, value, fault, onChange }: { name: string; value: unknown; fault: string | undefined; onChange: (name: string) => void }) {
  const chooser = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const take = async (file: File | undefined) => {
    if (!file) {
      return;
    }
    setBusy(true);
    setProblem("");
    try {
      const form = new FormData();
      form.set("image", file);
      form.set("type", "input");
      const saved = await (await send("/api/upload/image", { method: "POST", body: form })).json();
      onChange(saved.name);
    } catch (error) {
      setProblem(error instanceof Fault ? error.message : "The file could not be uploaded.");
    } finally {
      setBusy(false);
    }
  };
  return (
    <Field label={words(name)} hint="The name of a file in this workspace." fault={problem || fault}>
      {(control) => (
        <div className="drop" onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            event.preventDefault();
            void take(event.dataTransfer.files[0]);
          }}>
          <input {...control} className="input" value={String(value ?? "")} onChange={(event) => onChange(event.target.value)} />
          <div className="row">
            <Button size="small" icon={FileUp} isBusy={isBusy} onClick={() => chooser.current?.click()}>
              Upload a file
            </Button>
            <span className="soft small">or drop it here</span>
            <input ref={chooser} hidden type="file" onChange={(event) => void take(event.target.files?.[0])} />
          </div>
        </div>
      )}
    </Field>
  );
}
