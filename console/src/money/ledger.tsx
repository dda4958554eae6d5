import { BookOpenText, Download } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { api, documentOf, send } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { saveFile } from "../browser";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { useToasts } from "../components/toasts";
import { type Column, VirtualList } from "../components/virtual-list";
import { dateTime, shortTime } from "../format";
import { ENTRIES, change } from "./amounts";

type Entry = components["schemas"]["AccountEntryShown"];

const COLUMNS: readonly Column<Entry>[] = [
  { title: "Time", width: "minmax(102px, 1fr)", cell: (one) => <time dateTime={one.at} title={dateTime(one.at)}>{shortTime(one.at)}</time> },
  { title: "Entry", width: "minmax(68px, 0.8fr)", cell: (one) => ENTRIES[one.kind] ?? one.kind },
  { title: "For", width: "minmax(120px, 2fr)", isWideOnly: true, cell: (one) => (one.run ? <Link href={`/runs/${one.run}`}>{one.model ?? one.run}</Link> : one.reason) },
  { title: "Balance", width: "minmax(124px, 0.8fr)", isEnd: true, cell: (one) => change(one.balance_change) },
  { title: "Held", width: "minmax(90px, 0.8fr)", isEnd: true, isWideOnly: true, cell: (one) => change(one.held_change) },
];

/** Every entry of the workspace's account, the newest first. */
export function Ledger() {
  const { workspace } = useMe();
  const { tellFault } = useToasts();
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [saving, setSaving] = useState<string | null>(null);
  const span = { from: from || undefined, to: to || undefined };
  const list = usePages(["ledger", workspace, from, to], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/ledger", { params: { path: { workspace }, query: { ...span, cursor, limit: 200 } } })),
  );
  const save = async (format: "csv" | "jsonl") => {
    setSaving(format);
    const query = new URLSearchParams({ format, ...(from && { from }), ...(to && { to }) });
    try {
      const answer = await send(`/api/admin/v1/workspaces/${encodeURIComponent(workspace)}/ledger/export?${query}`);
      saveFile(`ledger-${workspace}.${format}`, await answer.blob());
    } catch (error) {
      tellFault(error);
    } finally {
      setSaving(null);
    }
  };
  return (
    <div className="stack">
      <div className="toolbar">
        <Field label="From">{(control) => <input {...control} className="input" type="date" value={from} onChange={(event) => setFrom(event.target.value)} />}</Field>
        <Field label="To">{(control) => <input {...control} className="input" type="date" value={to} onChange={(event) => setTo(event.target.value)} />}</Field>
        <div className="grow" />
        <Button icon={Download} isBusy={saving === "csv"} onClick={() => void save("csv")}>Save as CSV</Button>
        <Button icon={Download} isBusy={saving === "jsonl"} onClick={() => void save("jsonl")}>Save as JSON lines</Button>
      </div>
      <Loaded query={list.query}>
        {() =>
          list.rows.length > 0 ? (
            <VirtualList label="Ledger" rows={list.rows} columns={COLUMNS} idOf={(one) => String(one.id)} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          ) : from || to ? (
            <Empty icon={BookOpenText} action={<Button onClick={() => { setFrom(""); setTo(""); }}>Show all entries</Button>}>The ledger has no entry in this period.</Empty>
          ) : (
            <Empty icon={BookOpenText} action={<Link className="button" href="/explore">Run a model</Link>}>The ledger is empty: nothing has been paid in or run yet.</Empty>
          )
        }
      </Loaded>
    </div>
  );
}
