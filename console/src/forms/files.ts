import type { FileForm } from "./schema";

/** Read a file into the form that a body takes it in. */
export async function encodeFile(file: Blob, form: FileForm): Promise<string> {
  const uri = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return form === "base64" ? uri.slice(uri.indexOf(",") + 1) : uri;
}

const MAGIC: readonly (readonly [string, string])[] = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"],
  ["SUQz", "audio/mpeg"],
  ["//uQ", "audio/mpeg"],
  ["T2dnUw", "audio/ogg"],
  ["ZkxhQ", "audio/flac"],
  ["GkXfo", "video/webm"],
  ["Z2xURg", "model/gltf-binary"],
];

/** The type of bytes by their beginning, in base64; `null` where it is none that we show. */
export function typeOfBase64(text: string): string | null {
  if (text.startsWith("UklGR")) {
    return atob(text.slice(0, 16)).slice(8, 12) === "WAVE" ? "audio/wav" : "image/webp";
  }
  if (atobSafe(text.slice(0, 16)).slice(4, 8) === "ftyp") {
    return "video/mp4";
  }
  return MAGIC.find(([beginning]) => text.startsWith(beginning))?.[1] ?? null;
}

function atobSafe(text: string): string {
  try {
    return atob(text.slice(0, text.length - (text.length % 4)));
  } catch {
    return "";
  }
}

/** Something an `<img>` can show of a value in a body: a data: URI, or one made of base64. */
export function pictureSource(value: unknown): string | null {
  if (typeof value !== "string" || value === "") {
    return null;
  }
  if (value.startsWith("data:image/") || value.startsWith("blob:")) {
    return value;
  }
  const type = typeOfBase64(value);
  return type?.startsWith("image/") ? `data:${type};base64,${value}` : null;
}
