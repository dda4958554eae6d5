import { PageHead, Tabs, useTab } from "../components/basics";
import { useMe } from "../api/session";
import { ServerSettings } from "../settings/server";
import { Upkeep } from "../settings/upkeep";
import { WorkspaceSettings } from "../settings/workspace";

const TABS = [
  ["workspace", "Workspace"],
  ["server", "Server"],
  ["upkeep", "Upkeep"],
] as const;

export function Settings() {
  const { isOperator } = useMe();
  const [tab, setTab] = useTab(TABS);
  return (
    <>
      <PageHead title="Settings">{isOperator ? "What this workspace may do, how the server was started, and its upkeep." : "What this workspace may do."}</PageHead>
      {isOperator && <Tabs label="Settings" tabs={TABS} chosen={tab} onChoose={setTab} />}
      <div role={isOperator ? "tabpanel" : undefined} aria-label={isOperator ? TABS.find(([name]) => name === tab)?.[1] : undefined}>
        {isOperator && tab === "server" ? <ServerSettings /> : isOperator && tab === "upkeep" ? <Upkeep /> : <WorkspaceSettings />}
      </div>
    </>
  );
}
