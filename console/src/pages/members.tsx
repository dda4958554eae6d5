import { PageHead, Tabs, useTab } from "../components/basics";
import { useMe } from "../api/session";
import { Everybody } from "../members/everybody";
import { WorkspaceMembers } from "../members/workspace-members";

const TABS = [
  ["workspace", "This workspace"],
  ["everybody", "All members"],
] as const;

export function Members() {
  const { isOperator } = useMe();
  const [tab, setTab] = useTab(TABS);
  return (
    <>
      <PageHead title="Members">The people who use this workspace, and what each of them may do.</PageHead>
      {isOperator && <Tabs label="Members" tabs={TABS} chosen={tab} onChoose={setTab} />}
      <div role={isOperator ? "tabpanel" : undefined} aria-label={isOperator ? TABS.find(([name]) => name === tab)?.[1] : undefined}>
        {isOperator && tab === "everybody" ? <Everybody /> : <WorkspaceMembers />}
      </div>
    </>
  );
}
