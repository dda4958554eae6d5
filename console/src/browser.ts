/** What a browser offers only to pages of `https` and of the same machine, for a console that is opened over plain `http` too. */

/** A random UUID; `crypto.randomUUID` does not exist on a page that came over plain `http` from another machine. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** Put a text on the clipboard; whether it is there. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text);
  }
}

function copySelection(text: string): boolean {
  const area = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
  (document.querySelector("dialog[open]") ?? document.body).append(area); // a dialog keeps the focus inside
  area.select();
  try {
    return document.execCommand("copy");
  } finally {
    area.remove();
  }
}

/** Save bytes as a file of the reader's. */
export function saveFile(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
