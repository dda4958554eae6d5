import { BookOpenText, Download } from "lucide-react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { send } from "../api/client";
import { useMe } from "../api/session";
import { Button, Empty, Loaded } from "../components/basics";
import { useToasts } from "../components/toasts";
import { type Column, VirtualList } from "../components/virtual-list";
import { dateTime, dollars } from "../format";

type Entry = components["schemas"]["AccountEntryShown"];

const COLUMNS: Column<Entry>[] = [
  { title: "When", width: "minmax(150px, 1fr)", cell: (one) => dateTime(one.at) },
  { title: "Entry", width: "minmax(60px, 0.6fr)", cell: (one) => one.kind },
  { title: "For", width: "minmax(120px, 2fr)", isWideOnly: true, cell: (one) => (one.run ? <Link href={`/runs/${one.run}`}>{one.model ?? one.run}</Link> : one.reason) },
  { title: "Balance", width: "minmax(90px, 0.8fr)", isEnd: true, cell: (one) => dollars(one.balance_change) },
  { title: "Held", width: "minmax(90px, 0.8fr)", isEnd: true, isWideOnly: true, cell: (one) => dollars(one.held_change) },
];

/** Every entry of the workspace's account, the newest first. */
export function Ledger() {
  const { workspace } = useMe();
  const { tellFault } = useToasts();
  const list = usePages(["ledger", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/ledger", { params: { path: { workspace }, query: { cursor, limit: 200 } } })),
  );
  const save = async (format: "csv" | "jsonl") => {
    try {
      const answer = await send(`/api/admin/v1/workspaces/${encodeURIComponent(workspace)}/ledger/export?format=${format}`);
      const url = URL.createObjectURL(await answer.blob());
      const link = Object.assign(document.createElement("a"), { href: url, download: `ledger-${workspace}.${format}` });
      link.click();
      URL.revokeObjectURL(url);
    } catch (error) {
      tellFault(error);
    }
  };
  return (
    <Loaded query={list.query}>
      {() =>
        list.rows.length === 0 ? (
          <Empty icon={BookOpenText} action={<Link className="button" href="/explore">Run a model</Link>}>The ledger has no entry yet: nothing was paid in, and nothing was run.</Empty>
        ) : (
          <div className="stack">
            <div className="row end">
              <Button icon={Download} onClick={() => void save("csv")}>Save as CSV</Button>
              <Button icon={Download} onClick={() => void save("jsonl")}>Save as JSON lines</Button>
            </div>
            <VirtualList label="Ledger" rows={list.rows} columns={COLUMNS} idOf={(one) => String(one.id)} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          </div>
        )
      }
    </Loaded>
  );
}
