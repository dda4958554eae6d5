/** The part of JSON Schema that forms are made of. The rest is written as JSON by hand; the server checks everything. */
export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  contentEncoding?: string;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
}

export type Kind = "enum" | "boolean" | "number" | "seed" | "text" | "line" | "file" | "mask" | "list" | "object" | "variants" | "json" | "fixed";

/** Where a file goes in a body: as a data: URI, as base64 alone, or not at all, because only links are taken. */
export type FileForm = "data" | "base64" | "link";

const FILE_NAME = /(^|_)(image|images|picture|mask|video|audio|sound|file|frame|keyframes?)(_|\d|$)|base64|^(img_url|image_url|video_url|audio_url|url|data|model_url|.*_uri|promptImage|videoUri)$/i;
const NO_FILE = /callback|webhook|file_?name|_id$|voice|prompt$|format|_size$|count|num_|number/i;
const FILE_WORDS = /\b(base64|data:? uri|data:|a link|picture|clip|sound|jpeg|png|mp3|mp4|wav)\b/i;
const LONG_TEXT = /prompt|text|instruction|content|description|lyrics|script|message|story|query/i;
const SEED = /^(random_?)?seed$/i;

/** The schema without `null` and with the parts that are one put together: what a form shows. */
export function resolve(schema: JsonSchema): JsonSchema {
  let found = schema;
  for (const name of ["anyOf", "oneOf"] as const) {
    const variants = found[name]?.filter((one) => one.type !== "null" && one.const !== null);
    if (variants?.length === 1) {
      const { [name]: _, ...rest } = found;
      found = { ...variants[0], ...rest, ...(variants[0]?.type ? { type: variants[0].type } : {}) };
    } else if (variants && !found.type && !found.properties) {
      found = { ...found, [name]: variants };
    }
  }
  if (Array.isArray(found.type)) {
    const types = found.type.filter((one) => one !== "null");
    found = { ...found, type: types.length === 1 ? types[0] : types };
  }
  if (!found.type && found.properties) {
    found = { ...found, type: "object" };
  }
  return found;
}

export function kindOf(name: string, schema: JsonSchema): Kind {
  const { type } = schema;
  if (schema.const !== undefined) {
    return "fixed";
  }
  if (schema.enum) {
    return "enum";
  }
  if (!type && (schema.anyOf ?? schema.oneOf)) {
    return "variants";
  }
  switch (type) {
    case "boolean":
      return "boolean";
    case "integer":
    case "number":
      return SEED.test(name) ? "seed" : "number";
    case "array":
      return schema.items && Object.keys(schema.items).length > 0 ? "list" : "json";
    case "object":
      return schema.properties && Object.keys(schema.properties).length > 0 ? "object" : "json";
    case "string":
      if (isFile(name, schema)) {
        return /mask/i.test(name) ? "mask" : "file";
      }
      return LONG_TEXT.test(name) && (schema.maxLength ?? Infinity) > 100 ? "text" : "line";
    default:
      return "json";
  }
}

function isFile(name: string, schema: JsonSchema): boolean {
  if (schema.contentEncoding === "base64" || /data:/.test(schema.pattern ?? "")) {
    return true;
  }
  return FILE_NAME.test(name) && !NO_FILE.test(name) && (schema.format === "uri" || FILE_WORDS.test(schema.description ?? "") || (schema.maxLength ?? 0) > 1_000_000 || /https/.test(schema.pattern ?? ""));
}

export function fileFormOf(schema: JsonSchema): FileForm {
  const pattern = schema.pattern ?? "";
  const description = schema.description ?? "";
  if (/data:/.test(pattern) || (!pattern && /data:? uri/i.test(description))) {
    return "data";
  }
  if (/^\^https/.test(pattern) || (schema.format === "uri" && !/base64/i.test(description))) {
    return "link";
  }
  return schema.contentEncoding === "base64" || /base64/i.test(description) ? "base64" : "data";
}

/** What files a field takes, in the words of `<input accept>`. */
export function acceptOf(name: string, schema: JsonSchema): string {
  const words = `${name} ${schema.description ?? ""}`;
  if (/video|clip/i.test(words) && !/picture|image/i.test(name)) {
    return "video/*";
  }
  if (/audio|sound|voice/i.test(words) && !/picture|image/i.test(name)) {
    return "audio/*";
  }
  return /image|picture|mask|frame|jpeg|png/i.test(words) ? "image/*" : "";
}

/** What must be there from the beginning: fixed values, and one entry of each list that must have some. */
export function initialValue(schema: JsonSchema): unknown {
  const found = resolve(schema);
  if (found.const !== undefined) {
    return found.const;
  }
  if (found.enum) {
    return found.enum.includes("user") ? "user" : (found.default ?? found.enum[0]);
  }
  switch (kindOf("", found)) {
    case "list":
      return found.items && (found.minItems ?? 0) > 0 ? [initialValue(found.items)].filter((one) => one !== undefined) : undefined;
    case "object":
      return initialBody(found);
    case "variants":
      return undefined;
    default:
      return undefined;
  }
}

export function initialBody(schema: JsonSchema): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const name of schema.required ?? []) {
    const property = schema.properties?.[name];
    const value = property && initialValue(property);
    if (value !== undefined && value !== "" && !(property && resolve(property).enum && resolve(property).default !== undefined)) {
      body[name] = value;
    }
  }
  return body;
}

/** The body as it is sent: without texts, lists and objects that were emptied again. */
export function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(withoutEmpty).filter((one) => one !== undefined);
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(([name, one]) => [name, withoutEmpty(one)] as const).filter(([, one]) => one !== undefined);
    return entries.length > 0 ? Object.fromEntries(entries) : undefined;
  }
  return value === "" ? undefined : value;
}

const FIRST = /^(prompt|text|input|inputs|messages|contents|instruction|image|input_image|image_url|mask|video|audio|file|text_prompt|promptText|promptImage|Prompt)$/;
const LAST = /callback|webhook|safety_identifier|metadata|^user$|user_id|external_task|service_tier|logit_bias|^store$|^stream|prompt_cache/i;

/** Which fields stand at the front of a form, and which behind "More settings". */
export function partFields(schema: JsonSchema): { front: string[]; more: string[] } {
  const required = new Set(schema.required ?? []);
  const names = Object.keys(schema.properties ?? {}).filter((name) => !isFilledIn(schema.properties![name]!));
  const rank = (name: string) => (FIRST.test(name) ? 0 : required.has(name) ? 1 : SEED.test(name) ? 3 : LAST.test(name) ? 5 : 2);
  const isSimple = (name: string) => !["object", "json", "variants"].includes(kindOf(name, resolve(schema.properties![name]!)));
  const sorted = [...names].sort((one, other) => rank(one) - rank(other));
  const always = sorted.filter((name) => rank(name) <= 1);
  const front = [...always, ...sorted.filter((name) => rank(name) > 1 && rank(name) < 5 && isSimple(name)).slice(0, Math.max(0, 9 - always.length))];
  return { front, more: sorted.filter((name) => !front.includes(name)) };
}

/** Whether the server fills a field in from the model's address. */
function isFilledIn(schema: JsonSchema): boolean {
  return /^Filled from the address/.test(schema.description ?? "");
}
