import { Dices, Plus, Trash2 } from "lucide-react";
import { useId, useState } from "react";
import { Button, Field, Hint } from "../components/basics";
import { words } from "../format";
import { FileField } from "./file-field";
import { MaskField } from "./mask-field";
import { type JsonSchema, initialValue, kindOf, partFields, resolve } from "./schema";

export interface FieldProperties {
  name: string;
  schema: JsonSchema;
  value: unknown;
  onChange: (value: unknown) => void;
  /** Where the field is in the body: `messages/0/content`. */
  path: string;
  faults: Readonly<Record<string, string>>;
  isRequired?: boolean;
  /** The other fields of the same object, for a mask that is drawn over a picture. */
  siblings?: Readonly<Record<string, unknown>> | undefined;
}

/** One field of a model's body, of whatever kind its schema says. */
export function SchemaField(properties: FieldProperties) {
  const schema = resolve(properties.schema);
  const one = { ...properties, schema };
  switch (kindOf(properties.name, schema)) {
    case "fixed":
      return null;
    case "enum":
      return <EnumField {...one} />;
    case "boolean":
      return <BooleanField {...one} />;
    case "number":
    case "seed":
      return <NumberField {...one} />;
    case "file":
      return <FileField {...one} />;
    case "mask":
      return <MaskField {...one} />;
    case "list":
      return <ListField {...one} />;
    case "object":
      return <ObjectField {...one} />;
    case "variants":
      return <VariantsField {...one} />;
    case "text":
      return <TextField {...one} isLong />;
    case "line":
      return <TextField {...one} />;
    default:
      return <JsonField {...one} />;
  }
}

export function labelOf({ name, isRequired }: FieldProperties) {
  return (
    <>
      {words(name)}
      {isRequired && <span className="soft"> (required)</span>}
    </>
  );
}

function EnumField(properties: FieldProperties) {
  const { schema, value, onChange, faults, path } = properties;
  const options = schema.enum ?? [];
  const chosen = options.findIndex((one) => one === value);
  const usual = schema.default === undefined ? "not set" : `${String(schema.default)} (default)`;
  return (
    <Field label={labelOf(properties)} hint={schema.description} fault={faults[path]}>
      {(control) => (
        <select {...control} className="input" value={chosen} onChange={(event) => onChange(options[Number(event.target.value)])}>
          <option value={-1}>{usual}</option>
          {options.map((one, at) =>
            one === schema.default || one === null ? null : (
              <option key={String(one)} value={at}>
                {String(one)}
              </option>
            ),
          )}
        </select>
      )}
    </Field>
  );
}

function BooleanField({ name, schema, value, onChange, faults, path }: FieldProperties) {
  const id = useId();
  return (
    <div className="field">
      <label className="check" htmlFor={id}>
        <input id={id} type="checkbox" checked={Boolean(value ?? schema.default ?? false)} aria-describedby={`${id}-hint`} onChange={(event) => onChange(event.target.checked)} />
        <span>{words(name)}</span>
      </label>
      <Hint id={`${id}-hint`}>{schema.description}</Hint>
      {faults[path] && <p className="fault" role="alert">{faults[path]}</p>}
    </div>
  );
}

const SEEDS = 4_294_967_295;

function NumberField(properties: FieldProperties) {
  const { name, schema, value, onChange, faults, path } = properties;
  const { minimum, maximum } = schema;
  const isWhole = schema.type === "integer";
  const isSeed = kindOf(name, schema) === "seed";
  const isNarrow = !isSeed && minimum !== undefined && maximum !== undefined && maximum - minimum <= 4096;
  const step = schema.multipleOf ?? (isWhole ? 1 : isNarrow && maximum - minimum <= 10 ? 0.01 : "any");
  const read = (text: string) => onChange(text === "" ? undefined : Number(text));
  const shown = typeof value === "number" ? value : "";
  const usual = schema.default === undefined || schema.default === null ? undefined : String(schema.default);
  const range = minimum !== undefined && maximum !== undefined && !isSeed ? `${minimum} to ${maximum}. ` : "";
  return (
    <Field label={labelOf(properties)} hint={`${range}${schema.description ?? ""}` || undefined} fault={faults[path]}>
      {(control) => (
        <div className="pair">
          {isNarrow && (
            <input type="range" aria-label={`${words(name)}, as a slider`} min={minimum} max={maximum} step={step === "any" ? 0.01 : step}
              value={shown === "" ? Number(schema.default ?? minimum) : shown} onChange={(event) => read(event.target.value)} />
          )}
          <input {...control} className="input grow number" type="number" inputMode={isWhole ? "numeric" : "decimal"} min={minimum} max={maximum} step={step}
            placeholder={usual ?? (isSeed ? "random" : undefined)} value={shown} onChange={(event) => read(event.target.value)} />
          {isSeed && (
            <Button icon={Dices} aria-label="Choose a random seed" title="Choose a random seed"
              onClick={() => onChange(Math.floor(Math.random() * Math.min(maximum ?? SEEDS, SEEDS)))} />
          )}
        </div>
      )}
    </Field>
  );
}

function TextField(properties: FieldProperties & { isLong?: boolean }) {
  const { schema, value, onChange, faults, path, isLong = false } = properties;
  const shown = typeof value === "string" ? value : "";
  const usual = typeof schema.default === "string" ? schema.default : undefined;
  const limits = { maxLength: schema.maxLength, placeholder: usual };
  return (
    <Field label={labelOf(properties)} hint={schema.description} fault={faults[path]}>
      {(control) =>
        isLong ? (
          <textarea {...control} {...limits} className="input" rows={3} value={shown} onChange={(event) => onChange(event.target.value)} />
        ) : (
          <input {...control} {...limits} className="input" type={schema.format === "uri" ? "url" : "text"} value={shown} onChange={(event) => onChange(event.target.value)} />
        )
      }
    </Field>
  );
}

function ListField(properties: FieldProperties) {
  const { name, schema, value, onChange, path, faults } = properties;
  const items = Array.isArray(value) ? value : [];
  const item = schema.items ?? {};
  const change = (at: number, next: unknown) => onChange(items.map((one, index) => (index === at ? next : one)));
  const remove = (at: number) => {
    const rest = items.filter((_, index) => index !== at);
    onChange(rest.length > 0 ? rest : undefined);
  };
  const isFull = items.length >= (schema.maxItems ?? Infinity);
  return (
    <fieldset className="field">
      <legend>{labelOf(properties)}</legend>
      <div className="stack">
        {schema.description && <Hint>{schema.description}</Hint>}
        {items.map((one, at) => (
          <div className="row" key={at}>
            <div className="grow">
              <SchemaField name={`${name} ${at + 1}`} schema={{ ...item, description: item.description ?? "" }} value={one} onChange={(next) => change(at, next)} path={`${path}/${at}`} faults={faults} />
            </div>
            <Button size="small" look="quiet" icon={Trash2} aria-label={`Remove ${words(name)} ${at + 1}`} onClick={() => remove(at)} />
          </div>
        ))}
        {faults[path] && <p className="fault" role="alert">{faults[path]}</p>}
        <div>
          <Button size="small" icon={Plus} disabled={isFull} onClick={() => onChange([...items, initialValue(item) ?? emptyOf(item)])}>
            Add {items.length > 0 ? "another" : "one"}
          </Button>
        </div>
      </div>
    </fieldset>
  );
}

function emptyOf(schema: JsonSchema): unknown {
  const { type } = resolve(schema);
  return type === "object" ? {} : type === "array" ? [] : type === "string" ? "" : null;
}

function ObjectField(properties: FieldProperties) {
  const { schema, value, onChange, path, faults } = properties;
  const body = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return (
    <fieldset className="field">
      <legend>{labelOf(properties)}</legend>
      {schema.description && <Hint>{schema.description}</Hint>}
      <ObjectFields schema={schema} body={body} onChange={onChange} path={path} faults={faults} />
    </fieldset>
  );
}

interface ObjectFieldsProperties {
  schema: JsonSchema;
  body: Readonly<Record<string, unknown>>;
  onChange: (body: Record<string, unknown>) => void;
  path?: string;
  faults: Readonly<Record<string, string>>;
}

/** The fields of an object: those that matter first, the others behind "More settings". */
export function ObjectFields({ schema, body, onChange, path = "", faults }: ObjectFieldsProperties) {
  const { front, more } = partFields(schema);
  const required = new Set(schema.required ?? []);
  const field = (name: string) => {
    const own = path ? `${path}/${name}` : name;
    return (
      <SchemaField key={name} name={name} schema={schema.properties![name]!} value={body[name]} path={own} faults={faults} isRequired={required.has(name)} siblings={body}
        onChange={(value) => {
          const { [name]: _, ...rest } = body;
          onChange(value === undefined ? rest : { ...rest, [name]: value });
        }} />
    );
  };
  const hasFault = more.some((name) => Object.keys(faults).some((one) => one.startsWith(path ? `${path}/${name}` : name)));
  return (
    <div className="stack">
      {front.map(field)}
      {more.length > 0 && (
        <details className="more" open={hasFault || undefined}>
          <summary>More settings ({more.length})</summary>
          <div className="stack">{more.map(field)}</div>
        </details>
      )}
    </div>
  );
}

function VariantsField(properties: FieldProperties) {
  const { name, schema, value, onChange } = properties;
  const variants = (schema.anyOf ?? schema.oneOf ?? []).map(resolve);
  const fits = variants.findIndex((one) => typeOf(value) === one.type);
  const [chosen, setChosen] = useState(fits < 0 ? 0 : fits);
  const at = fits >= 0 ? fits : Math.min(chosen, variants.length - 1);
  const variant = variants[at]!;
  return (
    <div className="stack tight">
      {variants.length > 1 && (
        <Field label={`${words(name)}: form`}>
          {(control) => (
            <select {...control} className="input" value={at}
              onChange={(event) => {
                setChosen(Number(event.target.value));
                onChange(initialValue(variants[Number(event.target.value)]!) ?? emptyOf(variants[Number(event.target.value)]!) ?? undefined);
              }}>
              {variants.map((one, index) => (
                <option key={index} value={index}>
                  {one.title ?? one.description ?? String(one.type ?? "any value")}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      <SchemaField {...properties} schema={{ ...variant, description: variant.description ?? schema.description }} />
    </div>
  );
}

function typeOf(value: unknown): string {
  return Array.isArray(value) ? "array" : typeof value;
}

/** JSON, written by hand, for what no form can express. */
export function JsonField(properties: FieldProperties) {
  const { schema, value, onChange, faults, path } = properties;
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [fault, setFault] = useState("");
  return (
    <Field label={labelOf(properties)} hint={`${schema.description ?? ""} As JSON.`.trim()} fault={fault || faults[path]}>
      {(control) => (
        <textarea {...control} className="input code" rows={3} spellCheck={false} value={text}
          onChange={(event) => {
            setText(event.target.value);
            try {
              onChange(event.target.value.trim() === "" ? undefined : JSON.parse(event.target.value));
              setFault("");
            } catch (error) {
              setFault(`This is not valid JSON: ${(error as Error).message}`);
            }
          }} />
      )}
    </Field>
  );
}

