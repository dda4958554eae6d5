import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plug } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { Button, Empty, Field, Loaded, StateTag } from "../components/basics";
import { useToasts } from "../components/toasts";
import { ago, dateTime } from "../format";

type Provider = components["schemas"]["ProviderShown"];

/** Every provider, with its state as this server has seen it. */
export function ProviderHealth() {
  const [q, setQ] = useState("");
  const [state, setState] = useState("");
  const providers = useQuery({ queryKey: ["providers"], queryFn: () => documentOf(api.GET("/api/admin/v1/providers")), refetchInterval: 5000 });
  const states = [...new Set(providers.data?.items.map((one) => one.state))].sort();
  return (
    <>
      <div className="toolbar">
        <Field label="Search" className="search">
          {(control) => <input {...control} className="input" type="search" placeholder="A provider" value={q} onChange={(event) => setQ(event.target.value)} />}
        </Field>
        <Field label="State">
          {(control) => (
            <select {...control} className="input" value={state} onChange={(event) => setState(event.target.value)}>
              <option value="">All states</option>
              {states.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <Loaded query={providers}>
        {({ items }) => {
          const found = items.filter((one) => `${one.name} ${one.title}`.toLowerCase().includes(q.toLowerCase()) && (!state || one.state === state));
          return found.length === 0 ? (
            <Empty icon={Plug} action={<Button onClick={() => { setQ(""); setState(""); }}>Show all providers</Button>}>No provider matches.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Provider</th>
                    <th scope="col">State</th>
                    <th scope="col" className="end">Models</th>
                    <th scope="col">Credentials</th>
                    <th scope="col">Missing settings</th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <Row key={one.name} provider={one} />
                  ))}
                </tbody>
              </table>
            </div>
          );
        }}
      </Loaded>
    </>
  );
}

function Row({ provider: one }: { provider: Provider }) {
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const isCooling = one.credentials.some((each) => each.cooldown_until !== null || each.workspaces.length > 0);
  const end = () =>
    void api
      .POST("/api/admin/v1/providers/{provider}/end-cooldowns", { params: { path: { provider: one.name } } })
      .then(() => tell(`${one.title} is called again.`), tellFault)
      .finally(() => queries.invalidateQueries({ queryKey: ["providers"] }));
  return (
    <tr>
      <td data-label="Provider">
        <span><strong>{one.title}</strong> <span className="soft small">{one.name}</span></span>
      </td>
      <td data-label="State">
        <span className="row">
          <StateTag state={one.state} /> {one.cooldown_until && <span className="small soft" title={dateTime(one.cooldown_until)}>ends {ago(one.cooldown_until)}</span>}
          {isCooling && <Button size="small" onClick={end}>End the cooldown</Button>}
        </span>
      </td>
      <td data-label="Models" className="end">{one.models}</td>
      <td data-label="Credentials">
        <span className="row">
          {one.credentials.map((each) => (
            <span key={each.label} className="row small" title={each.cooldown_until ? `until ${dateTime(each.cooldown_until)}` : undefined}>
              <code>{each.label}</code> {each.state !== "ready" && <StateTag state={each.state} />}
              {each.workspaces.map((cooling) => (
                <span key={cooling.workspace} title={cooling.until ? `until ${dateTime(cooling.until)}` : "the next run tries it"}>
                  cools down for <Link href={`/workspaces/${encodeURIComponent(cooling.workspace)}`}>{cooling.workspace}</Link>: {cooling.reason}
                </span>
              ))}
            </span>
          ))}
          {one.credentials.length === 0 && "–"}
        </span>
      </td>
      <td data-label="Missing settings">{one.missing_settings.length > 0 ? <code>{one.missing_settings.join(", ")}</code> : "–"}</td>
    </tr>
  );
}
