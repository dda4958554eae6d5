import { ScrollText } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Dialog, Empty, Fact, Facts, Field, ForOthers, Loaded, PageHead } from "../components/basics";
import { textInput } from "../components/form-dialog";
import { Period, useFilters } from "../components/filters";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime } from "../format";

type Entry = components["schemas"]["AuditEntryShown"];

const columnsOf = (open: (one: Entry) => void): readonly Column<Entry>[] => [
  { title: "Time", width: "minmax(84px, 0.8fr)", cell: (one) => <time dateTime={one.at} title={dateTime(one.at)}>{ago(one.at)}</time> },
  { title: "Who", width: "minmax(63px, 0.9fr)", cell: (one) => <span title={one.actor.kind}>{one.actor.name}</span> },
  {
    title: "Action",
    width: "minmax(163px, 1.3fr)",
    cell: (one) => (
      <button type="button" className="link" onClick={() => open(one)}>
        <code>{breakable(one.action)}</code>
      </button>
    ),
  },
  { title: "Workspace", width: "minmax(80px, 0.8fr)", isWideOnly: true, cell: (one) => one.workspace ?? "–" },
  { title: "Detail", width: "minmax(120px, 2fr)", isWideOnly: true, cell: (one) => <span title={detailOf(one)}>{detailOf(one) || "–"}</span> },
  { title: "Address", width: "minmax(90px, 0.8fr)", isWideOnly: true, cell: (one) => one.address ?? "–" },
];

/** An action such as `key.created`, which a narrow column may break behind its point. */
function breakable(action: string): ReactNode {
  const [what, ...rest] = action.split(".");
  return rest.length === 0 ? what : <>{what}.<wbr />{rest.join(".")}</>;
}

const FILTERS = ["action", "from", "to"] as const;

export function AuditLog() {
  const { workspace, isOperator, mayChange } = useMe();
  const [isWhole, setWhole] = useState(isOperator);
  const filters = useFilters(FILTERS);
  const [shown, setShown] = useState<Entry | null>(null);
  const columns = useMemo(() => columnsOf(setShown), []);
  const list = usePages(["audit-log", isWhole ? "" : workspace, filters.sent], (cursor) =>
    documentOf(api.GET("/api/admin/v1/audit-log", { params: { query: { workspace: isWhole ? undefined : workspace, ...filters.sent, cursor, limit: 200 } } })),
  );
  if (!mayChange) {
    return <ForOthers title="Audit log" who="owners and operators" />;
  }
  return (
    <>
      <PageHead title="Audit log">Every change: who made it, when and from where.</PageHead>
      <div className="toolbar">
        {isOperator && (
          <Field label="Workspaces">
            {(control) => (
              <select {...control} className="input" value={isWhole ? "all" : "one"} onChange={(event) => setWhole(event.target.value === "all")}>
                <option value="all">All workspaces</option>
                <option value="one">{workspace || "This workspace"}</option>
              </select>
            )}
          </Field>
        )}
        <Field label="Action">
          {(control) => <input {...control} {...textInput({ value: filters.valueOf("action"), onChange: (value) => filters.set("action", value) })} placeholder="key.created" />}
        </Field>
        <Period filters={filters} />
      </div>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 && !list.hasMore ? (
            <Empty icon={ScrollText} action={<Button onClick={filters.clear}>Show everything</Button>}>No change matches.</Empty>
          ) : (
            <VirtualList label="Audit log" rows={list.rows} columns={columns} idOf={(one) => String(one.id)} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          )
        }
      </Loaded>
      {shown && <EntryDialog entry={shown} onClose={() => setShown(null)} />}
    </>
  );
}

/** One change in full. */
function EntryDialog({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  return (
    <Dialog title={entry.action} onClose={onClose}>
      <div className="stack">
        <Facts>
          <Fact name="Time">{dateTime(entry.at)}</Fact>
          <Fact name="Who">{entry.actor.name} ({entry.actor.kind})</Fact>
          <Fact name="Workspace">{entry.workspace ?? "–"}</Fact>
          <Fact name="Target">{entry.target ?? "–"}</Fact>
          <Fact name="Address">{entry.address ?? "–"}</Fact>
        </Facts>
        {Object.keys(entry.detail).length > 0 && <pre className="code-block" tabIndex={0}>{JSON.stringify(entry.detail, null, 2)}</pre>}
      </div>
    </Dialog>
  );
}

function detailOf({ target, detail }: Entry): string {
  const facts = Object.entries(detail as Record<string, unknown>).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return [target, ...facts].filter(Boolean).join(" · ");
}
