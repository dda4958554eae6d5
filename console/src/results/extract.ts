import { typeOfBase64 } from "../forms/files";

export type MediaKind = "image" | "video" | "audio" | "3d" | "file";

/** One thing that a model made, and where its bytes are: kept in this browser, on the server, or elsewhere. */
export interface Media {
  kind: MediaKind;
  type: string;
  /** As who made it calls the file; without one it is named for what was asked. */
  name?: string;
  source: { blob: Blob } | { url: string } | { elsewhere: string };
}

export interface Result {
  media: Media[];
  texts: string[];
  /** The answer as it came, with long values cut short; `null` where it was bytes. */
  document: unknown;
}

const ENDINGS: Record<string, [MediaKind, string]> = {
  png: ["image", "image/png"], jpg: ["image", "image/jpeg"], jpeg: ["image", "image/jpeg"], webp: ["image", "image/webp"],
  gif: ["image", "image/gif"], avif: ["image", "image/avif"], svg: ["image", "image/svg+xml"],
  mp4: ["video", "video/mp4"], webm: ["video", "video/webm"], mov: ["video", "video/quicktime"],
  mp3: ["audio", "audio/mpeg"], wav: ["audio", "audio/wav"], ogg: ["audio", "audio/ogg"], flac: ["audio", "audio/flac"], m4a: ["audio", "audio/mp4"], aac: ["audio", "audio/aac"],
  glb: ["3d", "model/gltf-binary"], gltf: ["3d", "model/gltf+json"], obj: ["file", "model/obj"], zip: ["file", "application/zip"],
};
const TEXT_NAMES = new Set(["text", "content", "output_text", "transcript", "refusal"]);
const BASE64 = /^[A-Za-z0-9+/\s]+={0,2}$/;
const SHORT = 240;

/** What a model made, out of the answer to a run. */
export async function readResult(answer: Response, modality: string | null | undefined): Promise<Result> {
  const type = (answer.headers.get("content-type") ?? "").split(";")[0]!.trim();
  if (type === "application/json" || type.endsWith("+json")) {
    return resultOf(await answer.json(), modality);
  }
  const blob = await answer.blob();
  if (type.startsWith("text/")) {
    return { media: [], texts: [await blob.text()], document: null };
  }
  return { media: [{ kind: kindOfType(type), type, source: { blob } }], texts: [], document: null };
}

export function resultOf(document: unknown, modality: string | null | undefined): Result {
  const media: Media[] = [];
  const texts: string[] = [];
  const seen = new Set<string>();
  const look = (value: unknown, name: string): void => {
    if (Array.isArray(value)) {
      value.forEach((one) => look(one, name));
    } else if (typeof value === "object" && value !== null) {
      Object.entries(value).forEach(([key, one]) => look(one, key));
    } else if (typeof value === "string" && value !== "" && !seen.has(value)) {
      const found = mediaOf(value, modality);
      if (found) {
        seen.add(value);
        media.push(found);
      } else if (TEXT_NAMES.has(name) && (modality === "text" || value.length > 40)) {
        texts.push(value);
      }
    }
  };
  look(document, "");
  return { media, texts, document: shorten(document) };
}

function mediaOf(value: string, modality: string | null | undefined): Media | null {
  if (value.startsWith("data:")) {
    const type = value.slice(5, value.search(/[;,]/));
    return { kind: kindOfType(type), type, source: { blob: blobOf(value.slice(value.indexOf(",") + 1), type) } };
  }
  if (/^https?:\/\//.test(value)) {
    return linked(value, modality);
  }
  if (value.length > 64 && BASE64.test(value.slice(0, 200))) {
    const type = typeOfBase64(value);
    return type ? { kind: kindOfType(type), type, source: { blob: blobOf(value, type) } } : null;
  }
  return null;
}

/** A link in an answer: one of the server's own is shown here, any other only led to, because pages load nothing from elsewhere. */
function linked(value: string, modality: string | null | undefined): Media | null {
  const url = new URL(value);
  const isOurs = url.pathname.startsWith("/assets/") || url.pathname.startsWith("/files/");
  const name = isOurs ? (url.searchParams.get("name") ?? url.pathname) : url.pathname;
  const known = ENDINGS[name.split(".").at(-1)?.toLowerCase() ?? ""];
  // Of 3D only what ends in .glb or .gltf can be drawn: models also answer with .fbx and .usdz.
  const usual: MediaKind = modality === "image" || modality === "video" || modality === "audio" ? modality : "file";
  const [kind, type] = known ?? [usual, ""];
  if (isOurs) {
    const named = url.searchParams.get("name");
    return { kind, type, ...(named && (kind === "3d" || kind === "file") && { name: named }), source: { url: url.pathname + url.search } };
  }
  return known || /asset|media|output|result|cdn|file/i.test(value) ? { kind, type, source: { elsewhere: value } } : null;
}

export function kindOfType(type: string): MediaKind {
  const family = type.split("/")[0];
  return family === "image" || family === "video" || family === "audio" ? family : type.startsWith("model/gltf") ? "3d" : "file";
}

function blobOf(base64: string, type: string): Blob {
  const binary = atob(base64.replace(/\s/g, ""));
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) {
    bytes[at] = binary.charCodeAt(at);
  }
  return new Blob([bytes], { type });
}

/** A document with its long texts cut, to be read by people. */
export function shorten(value: unknown, limit = SHORT): unknown {
  if (typeof value === "string") {
    return value.length > limit ? `${value.slice(0, 60)}… (${value.length.toLocaleString("en-US")} characters)` : value;
  }
  if (Array.isArray(value)) {
    return value.map((one) => shorten(one, limit));
  }
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shorten(one, limit)]));
  }
  return value;
}
