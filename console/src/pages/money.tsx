import { PageHead, Tabs, useTab } from "../components/basics";
import { useMe } from "../api/session";
import { Alerts } from "../money/alerts";
import { Books } from "../money/books";
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
  ["books", "Books"],
] as const;

export function Money() {
  const { isOperator } = useMe();
  const tabs = isOperator ? TABS : TABS.slice(0, -1);
  const [tab, setTab] = useTab(tabs);
  return (
    <>
      <PageHead title="Money">Spend, budgets, alerts and the ledger of this workspace.</PageHead>
      <Tabs label="Money" tabs={tabs} chosen={tab} onChoose={setTab} />
      <div role="tabpanel" aria-label={TABS.find(([name]) => name === tab)?.[1]}>
        {tab === "spend" && <Spend />}
        {tab === "budgets" && <Budgets />}
        {tab === "alerts" && <Alerts />}
        {tab === "ledger" && <Ledger />}
        {tab === "statement" && <Statement />}
        {tab === "books" && <Books />}
      </div>
    </>
  );
}
