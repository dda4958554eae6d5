import { useQuery, useQueryClient } from "@tanstack/react-query";
import { BellRing, Plus, Send, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { dateTime } from "../format";

type Kind = components["schemas"]["NewChannel"]["kind"];

const KINDS: readonly (readonly [Kind, string, string])[] = [
  ["webhook", "Webhook", "https://…"],
  ["email", "E-mail", "somebody@example.com"],
  ["slack", "Slack-compatible webhook", "https://…"],
];

/** Where alerts of budgets are sent, and which were sent. */
export function Alerts() {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [isAsked, setAsked] = useState(false);
  const path = { workspace };
  const channels = useQuery({
    queryKey: ["channels", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/alert-channels", { params: { path } })),
  });
  const alerts = usePages(["alerts", workspace], (cursor) => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/alerts", { params: { path, query: { cursor } } })), 10);
  const again = () => queries.invalidateQueries({ queryKey: ["channels"] });
  const add = mayChange && (
    <Button icon={Plus} onClick={() => setAsked(true)}>
      Add a channel
    </Button>
  );
  return (
    <div className="stack wide">
      <section className="card stack">
        <div className="row spread">
          <h2>Channels</h2>
          {(channels.data?.items.length ?? 0) > 0 && add}
        </div>
        <Loaded query={channels}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty icon={BellRing} action={add || <Button onClick={() => void channels.refetch()}>Refresh</Button>}>Nobody is alerted yet when a budget runs out.</Empty>
            ) : (
              <ul className="stack tight">
                {items.map((one) => (
                  <li className="row spread" key={one.id}>
                    <span>
                      <span className="tag">{one.kind}</span> {one.target}
                    </span>
                    {mayChange && (
                      <span className="row">
                        <Button size="small" icon={Send}
                          onClick={() => void api.POST("/api/admin/v1/workspaces/{workspace}/alert-channels/{channel_id}/test", { params: { path: { workspace, channel_id: one.id } } }).then(() => tell("A test alert is on its way."), tellFault)}>
                          Send a test
                        </Button>
                        <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete the channel ${one.target}`}
                          onClick={() => void api.DELETE("/api/admin/v1/workspaces/{workspace}/alert-channels/{channel_id}", { params: { path: { workspace, channel_id: one.id } } }).then(again, tellFault)} />
                      </span>
                    )}
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </section>
      <section className="card stack">
        <h2>Sent alerts</h2>
        <Loaded query={alerts.query}>
          {() =>
            alerts.rows.length === 0 ? (
              <Empty icon={BellRing} action={<Button onClick={() => void alerts.query.refetch()}>Refresh</Button>}>No alert has been sent yet.</Empty>
            ) : (
              <ul className="stack tight">
                {alerts.rows.map((one) => (
                  <li key={one.id}>
                    <span className="small soft">{dateTime(one.at)}</span> <span className="tag warn">{one.kind}</span> {one.message}{" "}
                    <span className="small soft">{one.delivered.filter((told) => told.delivered_at).length} of {one.delivered.length} delivered</span>
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </section>
      {isAsked && <NewChannel onClose={() => setAsked(false)} onDone={again} />}
    </div>
  );
}

function NewChannel({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const [kind, setKind] = useState<Kind>("webhook");
  const [target, setTarget] = useState("");
  return (
    <FormDialog title="Add a channel" action="Add" onClose={onClose} fields={["kind", "target"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/workspaces/{workspace}/alert-channels", { params: { path: { workspace } }, body: { kind, target } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Kind" fault={faults.kind}>
            {(control) => (
              <select {...control} className="input" value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
                {KINDS.map(([one, title]) => (
                  <option key={one} value={one}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Address" fault={faults.target}>
            {(control) => <input {...control} {...textInput({ value: target, onChange: setTarget })} placeholder={KINDS.find(([one]) => one === kind)?.[2]} />}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
