import { useQueryClient } from "@tanstack/react-query";
import { Ban, Package } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, ForOthers, Loaded, PageHead } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime, words } from "../format";

type Kind = "publisher" | "node";
type Act = components["schemas"]["RegistryActShown"];

const COLUMNS: readonly Column<Act>[] = [
  { title: "Time", width: "minmax(92px, 0.8fr)", cell: (one) => <time dateTime={one.at} title={dateTime(one.at)}>{ago(one.at)}</time> },
  { title: "Action", width: "minmax(90px, 1fr)", cell: (one) => words(one.act) },
  { title: "Publisher", width: "minmax(100px, 1fr)", cell: (one) => <span title={one.publisher}>{one.publisher}</span> },
  { title: "Node pack", width: "minmax(100px, 1.2fr)", isWideOnly: true, cell: (one) => <span title={one.node ?? undefined}>{one.node ?? "–"}</span> },
  { title: "Subject", width: "minmax(100px, 1.2fr)", isWideOnly: true, cell: (one) => <span title={one.subject ?? undefined}>{one.subject ?? "–"}</span> },
];

/** The registry of node packs: what was done in it, and bans. */
export function Registry() {
  return useMe().isOperator ? <Acts /> : <ForOthers title="Registry" who="operators" />;
}

function Acts() {
  const queries = useQueryClient();
  const [publisher, setPublisher] = useState("");
  const [asked, setAsked] = useState<"ban" | "unban" | null>(null);
  const acts = usePages(["registry-acts", publisher], (cursor) =>
    documentOf(api.GET("/api/admin/v1/registry-acts", { params: { query: { publisher: publisher || undefined, cursor, limit: 200 } } })),
  );
  const ban = (
    <>
      <Button onClick={() => setAsked("unban")}>End a ban</Button>
      <Button look="danger" icon={Ban} onClick={() => setAsked("ban")}>
        Ban
      </Button>
    </>
  );
  return (
    <>
      <PageHead title="Registry" actions={ban}>
        Publishers and node packs: what was published, changed and banned.
      </PageHead>
      <div className="toolbar">
        <Field label="Publisher">
          {(control) => <input {...control} {...textInput({ value: publisher, onChange: setPublisher })} placeholder="All publishers" />}
        </Field>
      </div>
      <Loaded query={acts.query}>
        {() =>
          acts.rows.length === 0 ? (
            <Empty icon={Package} action={<Button onClick={() => (publisher ? setPublisher("") : void acts.query.refetch())}>{publisher ? "Show all publishers" : "Refresh"}</Button>}>
              {publisher ? "Nothing was done by this publisher." : "Nobody has published a node pack yet."}
            </Empty>
          ) : (
            <VirtualList label="Registry" rows={acts.rows} columns={COLUMNS} idOf={(_, at) => String(at)} onEnd={acts.more} isLoadingMore={acts.isLoadingMore} />
          )
        }
      </Loaded>
      {asked && <BanForm isBan={asked === "ban"} onClose={() => setAsked(null)} onDone={() => queries.invalidateQueries({ queryKey: ["registry-acts"] })} />}
    </>
  );
}

function BanForm({ isBan, onClose, onDone }: { isBan: boolean; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { tell } = useToasts();
  const [kind, setKind] = useState<Kind>("publisher");
  const [id, setId] = useState("");
  return (
    <FormDialog title={isBan ? "Ban a publisher or a node pack" : "End a ban"} action={isBan ? "Ban" : "End the ban"} isDangerous={isBan} onClose={onClose} fields={["kind", "entry_id"]}
      onSubmit={async () => {
        const path = { params: { path: { kind, entry_id: id } } };
        await (isBan ? api.PUT("/api/admin/v1/registry-bans/{kind}/{entry_id}", path) : api.DELETE("/api/admin/v1/registry-bans/{kind}/{entry_id}", path));
        tell(isBan ? `${id} is banned.` : `The ban of ${id} has ended.`);
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Kind" hint="A banned publisher takes all its node packs along." fault={faults.kind}>
            {(control) => (
              <select {...control} className="input" value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
                <option value="publisher">Publisher</option>
                <option value="node">Node pack</option>
              </select>
            )}
          </Field>
          <Field label="Id" fault={faults.entry_id}>{(control) => <input {...control} {...textInput({ value: id, onChange: setId })} autoComplete="off" />}</Field>
        </>
      )}
    </FormDialog>
  );
}
