import { useQuery } from "@tanstack/react-query";
import { Settings2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Button, Empty, Field, Loaded, PageHead } from "../components/basics";
import { textInput } from "../components/form-dialog";

export function Settings() {
  const [q, setQ] = useState("");
  const settings = useQuery({ queryKey: ["settings"], queryFn: () => documentOf(api.GET("/api/admin/v1/settings")) });
  return (
    <>
      <PageHead title="Settings">What this server was started with. A setting is changed where the server is started; secrets are never shown.</PageHead>
      <div className="toolbar">
        <Field label="Search">{(control) => <input {...control} {...textInput({ value: q, onChange: setQ })} type="search" />}</Field>
      </div>
      <Loaded query={settings}>
        {({ items }) => {
          const found = items.filter((one) => `${one.name} ${one.sentence}`.toLowerCase().includes(q.toLowerCase()));
          return found.length === 0 ? (
            <Empty icon={Settings2} action={<Button onClick={() => setQ("")}>Show all settings</Button>}>No setting fits this search.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Setting</th>
                    <th scope="col">Value</th>
                    <th scope="col">What it does</th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.name}>
                      <td data-label="Setting"><code>{one.name}</code></td>
                      <td data-label="Value">
                        <span>
                          {one.is_secret ? (one.is_set ? "set, and not shown" : "not set") : one.value || "–"} {one.value === one.default && !one.is_secret && <span className="soft small">(default)</span>}
                        </span>
                      </td>
                      <td data-label="What it does">{one.sentence}</td>
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
