import { useQuery } from "@tanstack/react-query";
import { ShieldCheck, ShieldX } from "lucide-react";
import { api, documentOf } from "../api/client";
import { Button, Empty, Figure, Loaded } from "../components/basics";
import { words } from "../format";

/** The proof of all books of the installation: what `fairlead audit` does. It reads everything, so it is made on request. */
export function Books() {
  const books = useQuery({ queryKey: ["books"], queryFn: () => documentOf(api.GET("/api/admin/v1/books")), enabled: false, gcTime: 0 });
  if (!books.data && !books.isFetching && !books.error) {
    return (
      <Empty icon={ShieldCheck} action={<Button look="primary" onClick={() => void books.refetch()}>Check the books</Button>}>
        A check compares every run with its ledger entries, and every balance with their sum. It reads everything, of all workspaces.
      </Empty>
    );
  }
  return (
    <Loaded query={books}>
      {({ is_right: isRight, totals, disagreements, lost }) => (
        <div className="stack">
          <div className={`notice row spread ${isRight ? "good" : "bad"}`} role="status">
            <span className="row">
              {isRight ? <ShieldCheck size={18} aria-hidden="true" /> : <ShieldX size={18} aria-hidden="true" />}
              <strong>{isRight ? "The books are correct." : "The books do not agree."}</strong>
            </span>
            <Button size="small" isBusy={books.isFetching} onClick={() => void books.refetch()}>
              Check again
            </Button>
          </div>
          <div className="figures">
            {Object.entries(totals).map(([name, value]) => (
              <Figure key={name} label={words(name)} value={value.toLocaleString("en-US")} />
            ))}
          </div>
          <Rows title="Disagreements" rows={disagreements} />
          <Rows title="Lost runs" rows={lost} />
        </div>
      )}
    </Loaded>
  );
}

function Rows({ title, rows }: { title: string; rows: readonly Record<string, unknown>[] }) {
  if (rows.length === 0) {
    return null;
  }
  const names = Object.keys(rows[0] ?? {});
  return (
    <section className="card">
      <h2>{title}</h2>
      <div className="table-box">
        <table className="table cards">
          <thead>
            <tr>
              {names.map((name) => (
                <th key={name} scope="col">{words(name)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>
                {names.map((name) => (
                  <td key={name} data-label={words(name)}>{String(row[name] ?? "–")}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
