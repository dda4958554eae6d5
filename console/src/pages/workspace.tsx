import { useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleDollarSign, Pause, Pencil, Play, RotateCcw, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { useMe, useSession } from "../api/session";
import { BackLink, Button, ForOthers, Loaded, PageHead } from "../components/basics";
import { FormDialog } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { CreditForm } from "../workspaces/credit-form";
import { WorkspaceOverview } from "../workspaces/overview";
import { WorkspaceSettingsForm } from "../workspaces/settings-form";

type Change = "suspend" | "resume" | "restore";

const DONE: Record<Change, string> = { suspend: "is suspended.", resume: "is active again.", restore: "is restored." };

/** One workspace, as operators see it. */
export function WorkspacePage({ params }: { params: { name: string } }) {
  const name = decodeURIComponent(params.name);
  const { isOperator, workspace: chosen } = useMe();
  const { retry, chooseWorkspace } = useSession();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [asked, setAsked] = useState<"change" | "credit" | "delete" | null>(null);
  const path = { params: { path: { workspace: name } } };
  const found = useQuery({
    queryKey: ["workspace", name],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}", path)),
    refetchInterval: 10_000,
  });
  const again = async () => {
    await Promise.all([queries.invalidateQueries({ queryKey: ["workspaces"] }), queries.invalidateQueries({ queryKey: ["workspace"] })]);
    retry();
  };
  const change = (what: Change) => {
    const asking =
      what === "suspend"
        ? api.POST("/api/admin/v1/workspaces/{workspace}/suspend", path)
        : what === "resume"
          ? api.POST("/api/admin/v1/workspaces/{workspace}/resume", path)
          : api.POST("/api/admin/v1/workspaces/{workspace}/restore", path);
    void asking.then(() => tell(`${name} ${DONE[what]}`), tellFault).finally(again);
  };
  if (!isOperator) {
    return <ForOthers title={name} who="operators" />;
  }
  const state = found.data?.state;
  return (
    <>
      <BackLink href="/workspaces">All workspaces</BackLink>
      <PageHead
        title={name}
        actions={
          state && (
            <>
              {name !== chosen && state !== "deleting" && <Button onClick={() => chooseWorkspace(name)}>Switch to it</Button>}
              <Button icon={CircleDollarSign} onClick={() => setAsked("credit")}>Fund</Button>
              <Button icon={Pencil} onClick={() => setAsked("change")}>Change</Button>
              {state === "active" && <Button icon={Pause} onClick={() => change("suspend")}>Suspend</Button>}
              {state === "suspended" && <Button icon={Play} onClick={() => change("resume")}>Resume</Button>}
              {state === "deleting" ? (
                <Button look="primary" icon={RotateCcw} onClick={() => change("restore")}>Restore</Button>
              ) : (
                <Button look="danger" icon={Trash2} onClick={() => setAsked("delete")}>Delete</Button>
              )}
            </>
          )
        }
      >
        {found.data && <code>{found.data.id}</code>}
      </PageHead>
      <Loaded query={found}>{(one) => <WorkspaceOverview workspace={one} />}</Loaded>
      {asked === "change" && found.data && <WorkspaceSettingsForm workspace={found.data} onClose={() => setAsked(null)} onDone={again} />}
      {asked === "credit" && <CreditForm workspace={name} onClose={() => setAsked(null)} onDone={again} />}
      {asked === "delete" && (
        <FormDialog title={`Delete ${name}?`} action="Delete" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}", path);
            tell(`${name} will be deleted. Until then you can restore it.`);
            await again();
          }}>
          {() => <p>It starts nothing from now on, and is deleted after the grace period of the server. Until then you can restore it.</p>}
        </FormDialog>
      )}
    </>
  );
}
