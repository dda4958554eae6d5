import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Archive, FileSearch, KeyRound, RefreshCw } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Fault } from "../api/faults";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { Button, Empty, Fact, Facts, Loaded, StateTag } from "../components/basics";
import { FormDialog } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { bytes, dateTime } from "../format";

type FileAudit = components["schemas"]["FileAuditShown"];

/** What keeps the installation sound: its catalog, its stored files, its master secrets, and archives of old runs. */
export function Upkeep() {
  return (
    <div className="stack wide">
      <Catalog />
      <StoredFiles />
      <Secrets />
      <Archives />
    </div>
  );
}

function Catalog() {
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [isBusy, setBusy] = useState(false);
  const catalog = useQuery({ queryKey: ["catalog-in-force"], queryFn: () => documentOf(api.GET("/api/admin/v1/catalog")) });
  const reload = async () => {
    setBusy(true);
    try {
      const { models } = await documentOf(api.POST("/api/admin/v1/catalog/reload"));
      tell(`${models} models are in force.`);
    } catch (error) {
      tellFault(error);
    } finally {
      setBusy(false);
      await queries.invalidateQueries();
    }
  };
  return (
    <section className="card stack" aria-label="Catalog">
      <div className="row spread">
        <h2>Catalog</h2>
        <Button icon={RefreshCw} isBusy={isBusy} onClick={() => void reload()}>Reload the files</Button>
      </div>
      <Loaded query={catalog}>
        {(found) => (
          <>
            {found.mistake && <p className="notice bad">The files on disk are not in force: {found.mistake}</p>}
            <Facts>
              <Fact name="Models">{found.models}</Fact>
              <Fact name="Loaded">{dateTime(found.loaded_at)}</Fact>
              <Fact name="Build"><code>{found.build}</code></Fact>
            </Facts>
          </>
        )}
      </Loaded>
    </section>
  );
}

function StoredFiles() {
  const { tellFault } = useToasts();
  const audit = useQuery({
    queryKey: ["file-audit"],
    queryFn: async () => {
      try {
        return await documentOf(api.GET("/api/admin/v1/stored-files/audit"));
      } catch (error) {
        if (error instanceof Fault && error.status === 404) {
          return null;
        }
        throw error;
      }
    },
    refetchInterval: ({ state }) => (state.data && !state.data.finished_at ? 1000 : false),
  });
  const begin = (isThorough: boolean) => void api.POST("/api/admin/v1/stored-files/audit", { body: { is_thorough: isThorough } }).then(() => audit.refetch(), tellFault);
  const isUnderWay = Boolean(audit.data && !audit.data.finished_at);
  const buttons = (
    <div className="row">
      <Button isBusy={isUnderWay} onClick={() => begin(false)}>Check names and sizes</Button>
      <Button isBusy={isUnderWay} onClick={() => begin(true)}>Check every byte</Button>
    </div>
  );
  return (
    <section className="card stack" aria-label="Stored files">
      <div className="row spread">
        <h2>Stored files</h2>
        {audit.data && buttons}
      </div>
      <Loaded query={audit}>
        {(found) =>
          found === null ? (
            <Empty icon={FileSearch} action={buttons}>The stored files have not been checked since this server was started.</Empty>
          ) : (
            <Findings audit={found} />
          )
        }
      </Loaded>
    </section>
  );
}

function Findings({ audit }: { audit: FileAudit }) {
  if (!audit.finished_at) {
    return <progress aria-label="The check is under way" max={1} value={audit.progress} />;
  }
  return (
    <>
      <p className={`notice ${audit.is_right ? "good" : "bad"}`}>{audit.error ?? (audit.is_right ? "Every file is there and intact." : "Some files are damaged or missing.")}</p>
      <Facts>
        <Fact name="Finished">{dateTime(audit.finished_at)}</Fact>
        <Fact name="Kind of check">{audit.is_thorough ? "every byte" : "names and sizes"}</Fact>
        <Fact name="Files">{audit.files.toLocaleString("en-US")}, {bytes(audit.bytes)}</Fact>
        <Fact name="Damaged">{audit.damaged}</Fact>
        <Fact name="Missing">{audit.missing}</Fact>
        <Fact name="Orphaned">{audit.orphaned}</Fact>
      </Facts>
      {audit.findings.length > 0 && (
        <div className="table-box events">
          <table className="table cards">
            <thead>
              <tr>
                <th scope="col">Problem</th>
                <th scope="col">File</th>
                <th scope="col">Named by</th>
              </tr>
            </thead>
            <tbody>
              {audit.findings.map((one) => (
                <tr key={`${one.problem} ${one.file}`}>
                  <td data-label="Problem">{one.problem}</td>
                  <td data-label="File"><code>{one.file}</code></td>
                  <td data-label="Named by">{one.named_by.map(({ kind, id }) => `${kind} ${id}`).join(", ") || "nothing"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

type Asked = "rotate" | "prepare" | "reseal" | "finish";

const DIALOGS: Record<Asked, { title: string; action: string; words: string }> = {
  rotate: { title: "Rotate the master secret?", action: "Rotate", words: "A new secret becomes the current one, and everything that is sealed is sealed with it again. The former one still opens links until you forget it." },
  prepare: { title: "Prepare the next master secret?", action: "Prepare", words: "A new secret becomes known without being used. Copy the secret file to every server before you rotate." },
  reseal: { title: "Seal everything with the current secret?", action: "Seal again", words: "Whatever a former secret has sealed is sealed with the current one." },
  finish: { title: "Forget the former secrets?", action: "Forget", words: "The server refuses while links that a former secret has signed may still be in use." },
};

function Secrets() {
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<Asked | null>(null);
  const secrets = useQuery({ queryKey: ["secrets"], queryFn: () => documentOf(api.GET("/api/admin/v1/secrets")) });
  const run = async (what: Asked) => {
    switch (what) {
      case "rotate":
      case "prepare":
        await api.POST("/api/admin/v1/secrets/rotate", { body: { is_only_prepared: what === "prepare" } });
        tell(what === "rotate" ? "A new secret is in use." : "The next secret is prepared.");
        break;
      case "reseal": {
        const { resealed } = await documentOf(api.POST("/api/admin/v1/secrets/reseal"));
        tell(`${resealed} texts were sealed again.`);
        break;
      }
      case "finish": {
        const { forgotten } = await documentOf(api.POST("/api/admin/v1/secrets/finish", { body: { now: false } }));
        tell(`${forgotten} secrets were forgotten.`);
        break;
      }
    }
    await queries.invalidateQueries({ queryKey: ["secrets"] });
  };
  return (
    <section className="card stack" aria-label="Master secrets">
      <div className="row spread">
        <div>
          <h2>Master secrets</h2>
          <p className="soft small">They seal stored keys and sign links. Only their names are shown.</p>
        </div>
        <div className="row">
          <Button onClick={() => setAsked("prepare")}>Prepare</Button>
          <Button onClick={() => setAsked("rotate")}>Rotate</Button>
          <Button onClick={() => setAsked("reseal")}>Seal again</Button>
          <Button onClick={() => setAsked("finish")}>Forget former ones</Button>
        </div>
      </div>
      <Loaded query={secrets}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty icon={KeyRound} action={<Button onClick={() => void secrets.refetch()}>Refresh</Button>}>This server has no master secret.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col">State</th>
                    <th scope="col">Since</th>
                    <th scope="col" className="end">Sealed texts</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((one, at) => (
                    <tr key={one.name ?? at}>
                      <td data-label="Name"><code>{one.name ?? "no name"}</code></td>
                      <td data-label="State"><StateTag state={one.state} /></td>
                      <td data-label="Since">{dateTime(one.since)}</td>
                      <td data-label="Sealed texts" className="end">{one.sealed}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {asked && (
        <FormDialog title={DIALOGS[asked].title} action={DIALOGS[asked].action} isDangerous={asked === "finish"} onClose={() => setAsked(null)} onSubmit={() => run(asked)}>
          {() => <p>{DIALOGS[asked].words}</p>}
        </FormDialog>
      )}
    </section>
  );
}

function Archives() {
  const list = usePages(["archives"], (cursor) => documentOf(api.GET("/api/admin/v1/archives", { params: { query: { cursor } } })));
  return (
    <section className="card stack" aria-label="Archives">
      <h2>Archives</h2>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={Archive} action={<Button onClick={() => void list.query.refetch()}>Refresh</Button>}>No run has been moved into an archive yet.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">File</th>
                    <th scope="col">Runs before</th>
                    <th scope="col" className="end">Runs</th>
                    <th scope="col" className="end">Entries</th>
                    <th scope="col" className="end">Size</th>
                    <th scope="col">Finished</th>
                  </tr>
                </thead>
                <tbody>
                  {list.rows.map((one) => (
                    <tr key={one.number}>
                      <td data-label="File"><code>{one.file}</code></td>
                      <td data-label="Runs before">{dateTime(one.before)}</td>
                      <td data-label="Runs" className="end">{one.runs.toLocaleString("en-US")}</td>
                      <td data-label="Entries" className="end">{one.entries.toLocaleString("en-US")}</td>
                      <td data-label="Size" className="end">{bytes(one.size)}</td>
                      <td data-label="Finished">{dateTime(one.finished_at)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
    </section>
  );
}
