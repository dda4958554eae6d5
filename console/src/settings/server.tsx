import { useQuery } from "@tanstack/react-query";
import { Settings2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Button, Empty, Field, Loaded } from "../components/basics";

/** The settings that the server was started with, without secrets. */
export function ServerSettings() {
  const [q, setQ] = useState("");
  const [isChanged, setChanged] = useState(false);
  const settings = useQuery({ queryKey: ["settings"], queryFn: () => documentOf(api.GET("/api/admin/v1/settings")) });
  return (
    <>
      <p className="soft small lead">You change a setting where the server is started. Secrets are never shown.</p>
      <div className="toolbar">
        <Field label="Search" className="search">
          {(control) => <input {...control} className="input" type="search" placeholder="A name or a word" value={q} onChange={(event) => setQ(event.target.value)} />}
        </Field>
        <label className="check">
          <input type="checkbox" checked={isChanged} onChange={(event) => setChanged(event.target.checked)} /> Only those that differ from the default
        </label>
      </div>
      <Loaded query={settings}>
        {({ items }) => {
          const found = items.filter(
            (one) => `${one.name} ${one.sentence}`.toLowerCase().includes(q.toLowerCase()) && (!isChanged || (one.is_secret ? one.is_set : (one.value ?? "") !== (one.default ?? ""))),
          );
          return found.length === 0 ? (
            <Empty icon={Settings2} action={<Button onClick={() => { setQ(""); setChanged(false); }}>Show all settings</Button>}>No setting matches.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards settings">
                <thead>
                  <tr>
                    <th scope="col">Setting</th>
                    <th scope="col">Value</th>
                    <th scope="col">Purpose</th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.name}>
                      <td data-label="Setting"><code>{one.name}</code></td>
                      <td data-label="Value">
                        <span>
                          {one.is_secret ? (one.is_set ? "set" : "not set") : one.value || "–"} {one.value === one.default && !one.is_secret && <span className="soft small">default</span>}
                        </span>
                      </td>
                      <td data-label="Purpose">{one.sentence}</td>
                    </tr>
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
