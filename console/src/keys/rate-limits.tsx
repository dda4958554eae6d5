import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Gauge, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { date, words } from "../format";

type Limit = components["schemas"]["RateLimitShown"];
type Scope = components["schemas"]["NewRateLimit"]["scope"];

/** How many requests a minute a key may send, or a model may get. */
export function RateLimits() {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [isAsked, setAsked] = useState(false);
  const list = usePages(["rate-limits", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/rate-limits", { params: { path: { workspace }, query: { cursor } } })),
  );
  const keys = useQuery({
    queryKey: ["keys-named", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/keys", { params: { path: { workspace }, query: { limit: 200 } } })),
  });
  const again = () => queries.invalidateQueries({ queryKey: ["rate-limits"] });
  const remove = (one: Limit) =>
    void api.DELETE("/api/admin/v1/workspaces/{workspace}/rate-limits/{limit_id}", { params: { path: { workspace, limit_id: one.id } } }).then(() => tell("The limit was deleted."), tellFault).finally(again);
  const subjectOf = (one: Limit) => {
    const key = one.scope === "key" ? keys.data?.items.find(({ id }) => id === one.subject) : undefined;
    return key ? key.label || key.hint : one.subject;
  };
  const set = mayChange && (
    <Button look="primary" icon={Plus} onClick={() => setAsked(true)}>
      Set a limit
    </Button>
  );
  return (
    <>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={Gauge} action={set || <Button onClick={() => void list.query.refetch()}>Refresh</Button>}>
              No key or model has a limit of its own: the limit of the whole workspace applies.
            </Empty>
          ) : (
            <div className="stack">
              <div className="row end">{set}</div>
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Scope</th>
                      <th scope="col">Key or model</th>
                      <th scope="col" className="end">Requests a minute</th>
                      <th scope="col">Created</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {list.rows.map((one) => (
                      <tr key={one.id}>
                        <td data-label="Scope">{words(one.scope)}</td>
                        <td data-label="Key or model">{subjectOf(one)}</td>
                        <td data-label="Requests a minute" className="end">{one.per_minute.toLocaleString("en-US")}</td>
                        <td data-label="Created">{date(one.created_at)}</td>
                        <td className="end">{mayChange && <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete the limit of ${subjectOf(one)}`} onClick={() => remove(one)} />}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
            </div>
          )
        }
      </Loaded>
      {isAsked && <NewLimit keys={keys.data?.items ?? []} onClose={() => setAsked(false)} onDone={again} />}
    </>
  );
}

function NewLimit({ keys, onClose, onDone }: { keys: readonly components["schemas"]["KeyShown"][]; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const [scope, setScope] = useState<Scope>("key");
  const [subject, setSubject] = useState("");
  const [perMinute, setPerMinute] = useState("60");
  return (
    <FormDialog title="Set a rate limit" action="Set the limit" onClose={onClose} fields={["scope", "subject", "per_minute"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/workspaces/{workspace}/rate-limits", { params: { path: { workspace } }, body: { scope, subject, per_minute: Number(perMinute) } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Scope" fault={faults.scope}>
            {(control) => (
              <select {...control} className="input" value={scope} onChange={(event) => {
                  setScope(event.target.value as Scope);
                  setSubject("");
                }}>
                <option value="key">One key</option>
                <option value="model">One model</option>
              </select>
            )}
          </Field>
          <Field label={scope === "key" ? "Key" : "Model"} hint={scope === "model" ? "Its id, such as local/procedural-image-1." : undefined} fault={faults.subject}>
            {(control) =>
              scope === "key" ? (
                <select {...control} className="input" value={subject} onChange={(event) => setSubject(event.target.value)}>
                  <option value="">Choose a key</option>
                  {keys.filter((one) => !one.revoked_at).map((one) => (
                    <option key={one.id} value={one.id}>{one.label || one.hint}</option>
                  ))}
                </select>
              ) : (
                <input {...control} {...textInput({ value: subject, onChange: setSubject })} />
              )
            }
          </Field>
          <Field label="Requests a minute" hint="Beyond it, calls are answered with 429." fault={faults.per_minute}>
            {(control) => <input {...control} {...textInput({ value: perMinute, onChange: setPerMinute })} type="number" min={1} />}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
