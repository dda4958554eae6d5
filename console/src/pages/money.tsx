import { useState } from "react";
import { PageHead, Tabs } from "../components/basics";
import { Alerts } from "../money/alerts";
import { Budgets } from "../money/budgets";
import { Ledger } from "../money/ledger";
import { Spend } from "../money/spend";
import { Statement } from "../money/statement";
import "../styles/money.css";

const TABS = [
  ["spend", "Spend"],
  ["budgets", "Budgets"],
  ["alerts", "Alerts"],
  ["ledger", "Ledger"],
  ["statement", "Statement"],
] as const;

type Tab = (typeof TABS)[number][0];

export function Money() {
  const [tab, setTab] = useState<Tab>("spend");
  return (
    <>
      <PageHead title="Money">What this workspace spends, what it may spend, and who is told.</PageHead>
      <Tabs label="Money" tabs={TABS} chosen={tab} onChoose={setTab} />
      <div role="tabpanel" aria-label={TABS.find(([name]) => name === tab)?.[1]}>
        {tab === "spend" && <Spend />}
        {tab === "budgets" && <Budgets />}
        {tab === "alerts" && <Alerts />}
        {tab === "ledger" && <Ledger />}
        {tab === "statement" && <Statement />}
      </div>
    </>
  );
}
