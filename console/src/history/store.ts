import { type DBSchema, openDB } from "idb";
import type { Media } from "../results/extract";

/** A run made in this browser: its input, its result and a small picture. It never leaves the browser. */
export interface Entry {
  id: string;
  /** The member who made it: another one who signs in here does not see it. */
  owner: string;
  workspace: string;
  model: string;
  at: number;
  body: Record<string, unknown>;
  media: Media[];
  texts: string[];
  document: unknown;
  milliseconds: number;
  cost: string | null;
  thumbnail: Blob | null;
}

interface Schema extends DBSchema {
  entries: { key: string; value: Entry; indexes: { byModel: [string, string, string, number] } };
}

const KEPT_PER_MODEL = 60;

const database = () =>
  openDB<Schema>("fairlead-history", 1, {
    upgrade(db) {
      db.createObjectStore("entries", { keyPath: "id" }).createIndex("byModel", ["owner", "workspace", "model", "at"]);
    },
  });

let opened: ReturnType<typeof database> | undefined;

async function open() {
  opened ??= database();
  return opened;
}

function range(owner: string, workspace: string, model: string): IDBKeyRange {
  return IDBKeyRange.bound([owner, workspace, model, 0], [owner, workspace, model, Infinity]);
}

/** The runs of a model, the newest first. */
export async function entriesOf(owner: string, workspace: string, model: string): Promise<Entry[]> {
  const db = await open();
  return (await db.getAllFromIndex("entries", "byModel", range(owner, workspace, model))).reverse();
}

export async function newest(owner: string, workspace: string, model: string): Promise<Entry | undefined> {
  const db = await open();
  const cursor = await db.transaction("entries").store.index("byModel").openCursor(range(owner, workspace, model), "prev");
  return cursor?.value;
}

export async function keep(entry: Entry): Promise<void> {
  const db = await open();
  await db.put("entries", entry);
  const all = await entriesOf(entry.owner, entry.workspace, entry.model);
  for (const old of all.slice(KEPT_PER_MODEL)) {
    await db.delete("entries", old.id);
  }
}

export async function forget(id: string): Promise<void> {
  await (await open()).delete("entries", id);
}
