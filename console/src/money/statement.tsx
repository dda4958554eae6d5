import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { saveFile } from "../browser";
import { Button, Empty, Field, Figure, Loaded } from "../components/basics";
import { dateTime, dollars, roundDollars } from "../format";
import { Link } from "wouter";
import { csvOf } from "./amounts";

type Found = components["schemas"]["StatementShown"];

function save(found: Found): void {
  const spending = found.spending.map((one) => [one.model, nameOf(one), one.runs, one.succeeded, one.charge]);
  const rows = [
    ["model", "key", "runs", "succeeded", "dollars"],
    ...spending,
    ["opening balance", "", "", "", found.opening_balance],
    ["paid in", "", "", "", found.credited],
    ["charged", "", "", "", found.charged],
    ["closing balance", "", "", "", found.closing_balance],
  ];
  saveFile(`statement-${found.workspace}-${found.month}.csv`, csvOf(rows));
}

function nameOf(one: Found["spending"][number]): string {
  return one.key_label || (one.key ? "key without a label" : "console and tokens");
}

/** A month of the workspace: its balance before and after, what was paid in, and what was spent on which model. */
export function Statement() {
  const { workspace } = useMe();
  const [month, setMonth] = useState(new Date().toISOString().slice(0, 7));
  const statement = useQuery({
    queryKey: ["statement", workspace, month],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/statement", { params: { path: { workspace }, query: { month } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <div className="stack">
      <div className="toolbar">
        <Field label="Month">{(control) => <input {...control} className="input" type="month" value={month} onChange={(event) => event.target.value && setMonth(event.target.value)} />}</Field>
        <div className="grow" />
        <Button icon={Download} disabled={!statement.data} onClick={() => statement.data && save(statement.data)}>Save as CSV</Button>
      </div>
      <Loaded query={statement}>
        {(found) => (
          <>
            <div className="figures">
              <Figure label="Opening balance" value={roundDollars(found.opening_balance)} />
              <Figure label="Paid in" value={roundDollars(found.credited)} />
              <Figure label="Charged" value={roundDollars(found.charged)} />
              <Figure label="Closing balance" value={roundDollars(found.closing_balance)} />
            </div>
            {found.spending.length === 0 ? (
              <Empty action={<Link className="button" href="/explore">Run a model</Link>}>Nothing was spent this month.</Empty>
            ) : (
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Model</th>
                      <th scope="col">Key</th>
                      <th scope="col" className="end">Runs</th>
                      <th scope="col" className="end">Succeeded</th>
                      <th scope="col" className="end">Charged</th>
                    </tr>
                  </thead>
                  <tbody>
                    {found.spending.map((one) => (
                      <tr key={`${one.model} ${one.key}`}>
                        <td data-label="Model">{one.model}</td>
                        <td data-label="Key">{nameOf(one)}</td>
                        <td data-label="Runs" className="end">{one.runs}</td>
                        <td data-label="Succeeded" className="end">{one.succeeded}</td>
                        <td data-label="Charged" className="end">{dollars(one.charge)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            {found.credits.length > 0 && (
              <section className="card">
                <h2>Payments</h2>
                <ul className="stack tight">
                  {found.credits.map((one, at) => (
                    <li className="row spread" key={at}>
                      <span>{dateTime(one.at)} <span className="soft">{one.reason}</span></span>
                      <span className="number">{dollars(one.amount)}</span>
                    </li>
                  ))}
                </ul>
              </section>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}
