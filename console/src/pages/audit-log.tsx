import { ScrollText } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead } from "../components/basics";
import { textInput } from "../components/form-dialog";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime } from "../format";

type Entry = components["schemas"]["AuditEntryShown"];

const COLUMNS: Column<Entry>[] = [
  { title: "When", width: "minmax(92px, 0.8fr)", cell: (one) => <time dateTime={one.at} title={dateTime(one.at)}>{ago(one.at)}</time> },
  { title: "Who", width: "minmax(90px, 1fr)", cell: (one) => <span title={one.actor.kind}>{one.actor.name}</span> },
  { title: "What", width: "minmax(110px, 1.2fr)", cell: (one) => <code>{one.action}</code> },
  { title: "Workspace", width: "minmax(80px, 0.8fr)", isWideOnly: true, cell: (one) => one.workspace ?? "–" },
  { title: "Detail", width: "minmax(120px, 2fr)", isWideOnly: true, cell: (one) => <span title={detailOf(one)}>{detailOf(one) || "–"}</span> },
  { title: "From", width: "minmax(90px, 0.8fr)", isWideOnly: true, cell: (one) => one.address ?? "–" },
];

export function AuditLog() {
  const { workspace, isOperator, mayChange } = useMe();
  const [isWhole, setWhole] = useState(isOperator);
  const [action, setAction] = useState("");
  const list = usePages(["audit-log", isWhole ? "" : workspace, action], (cursor) =>
    documentOf(api.GET("/api/admin/v1/audit-log", { params: { query: { workspace: isWhole ? undefined : workspace, action: action || undefined, cursor, limit: 200 } } })),
  );
  if (!mayChange) {
    return (
      <>
        <PageHead title="Audit log" />
        <Empty icon={ScrollText} action={<a className="button" href="/console/explore">Go to Explore</a>}>The audit log is for owners and operators.</Empty>
      </>
    );
  }
  return (
    <>
      <PageHead title="Audit log">Every change: who made it, when, and from where.</PageHead>
      <div className="toolbar">
        {isOperator && (
          <Field label="Where">
            {(control) => (
              <select {...control} className="input" value={isWhole ? "all" : "one"} onChange={(event) => setWhole(event.target.value === "all")}>
                <option value="all">All workspaces</option>
                <option value="one">{workspace || "This workspace"}</option>
              </select>
            )}
          </Field>
        )}
        <Field label="What was done">
          {(control) => <input {...control} {...textInput({ value: action, onChange: setAction })} placeholder="key.created" />}
        </Field>
      </div>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={ScrollText} action={<Button onClick={() => setAction("")}>Show everything</Button>}>Nothing was changed that fits.</Empty>
          ) : (
            <VirtualList label="Audit log" rows={list.rows} columns={COLUMNS} idOf={(one) => String(one.id)} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          )
        }
      </Loaded>
    </>
  );
}

function detailOf({ target, detail }: Entry): string {
  const facts = Object.entries(detail as Record<string, unknown>).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return [target, ...facts].filter(Boolean).join(" · ");
}
