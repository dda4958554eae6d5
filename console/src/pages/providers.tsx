import { useQuery } from "@tanstack/react-query";
import { Plug } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { textInput } from "../components/form-dialog";
import { ago } from "../format";

export function Providers() {
  const [q, setQ] = useState("");
  const providers = useQuery({
    queryKey: ["providers"],
    queryFn: () => documentOf(api.GET("/api/admin/v1/providers")),
    refetchInterval: 5000,
  });
  return (
    <>
      <PageHead title="Providers">Who makes what is asked for: which can be called, and which rest after failures.</PageHead>
      <div className="toolbar">
        <Field label="Search">{(control) => <input {...control} {...textInput({ value: q, onChange: setQ })} type="search" />}</Field>
      </div>
      <Loaded query={providers}>
        {({ items }) => {
          const found = items.filter((one) => `${one.name} ${one.title}`.toLowerCase().includes(q.toLowerCase()));
          return found.length === 0 ? (
            <Empty icon={Plug} action={<Button onClick={() => setQ("")}>Show all providers</Button>}>No provider fits this search.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Provider</th>
                    <th scope="col">State</th>
                    <th scope="col" className="end">Models</th>
                    <th scope="col">Credentials</th>
                    <th scope="col">To be set</th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.name}>
                      <td data-label="Provider">
                        <span><strong>{one.name}</strong> <span className="soft">{one.title}</span></span>
                      </td>
                      <td data-label="State">
                        <span><StateTag state={one.state} /> {one.cooldown_until && <span className="small soft">until {ago(one.cooldown_until)}</span>}</span>
                      </td>
                      <td data-label="Models" className="end">{one.models}</td>
                      <td data-label="Credentials">{one.credentials.map((key) => `${key.label}: ${key.state.replace(/_/g, " ")}`).join(", ") || "–"}</td>
                      <td data-label="To be set">{one.missing_settings.join(", ") || "–"}</td>
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
