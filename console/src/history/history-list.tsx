import { useQuery, useQueryClient } from "@tanstack/react-query";
import { AudioLines, Box, FileText, RotateCcw, Trash2 } from "lucide-react";
import { useState } from "react";
import { useMe } from "../api/session";
import { Button, Dialog, Empty, Loaded } from "../components/basics";
import { ago, dollars, duration, words } from "../format";
import { shorten } from "../results/extract";
import { ResultView, labelOf } from "../results/result-view";
import { Thumbnail } from "../results/thumbnail";
import { type Entry, entriesOf, forget } from "./store";

interface HistoryListProperties {
  model: string;
  shown: Entry | null;
  onShow: (entry: Entry) => void;
  onTakeOver: (entry: Entry) => void;
}

/** Earlier results of a model in this browser; any two can be compared side by side. */
export function HistoryList({ model, shown, onShow, onTakeOver }: HistoryListProperties) {
  const { me, workspace } = useMe();
  const queries = useQueryClient();
  const [compared, setCompared] = useState<string[]>([]);
  const [isComparing, setComparing] = useState(false);
  const history = useQuery({ queryKey: ["history", me.id, workspace, model], queryFn: () => entriesOf(me.id, workspace, model), staleTime: 0 });
  const toggle = (id: string) => setCompared((before) => (before.includes(id) ? before.filter((one) => one !== id) : [...before.slice(-1), id]));
  return (
    <Loaded query={history}>
      {(entries) => {
        if (entries.length === 0) {
          return (
            <Empty action={<Button size="small" onClick={() => window.scrollTo({ top: 0, behavior: "smooth" })}>Go to the form</Button>}>
              You have not run this model in this browser yet. The page Runs lists the runs of programs too.
            </Empty>
          );
        }
        const pair = compared.map((id) => entries.find((one) => one.id === id)).filter((one) => one !== undefined);
        return (
          <div className="stack">
            <div className="row spread">
              <p className="soft small">Stored in this browser. Select two to compare them.</p>
              <Button size="small" disabled={pair.length < 2} onClick={() => setComparing(true)}>
                Compare
              </Button>
            </div>
            <ul className="history">
              {entries.map((one) => (
                <li key={one.id} className={`history-item ${shown?.id === one.id ? "chosen" : ""}`}>
                  <button type="button" onClick={() => onShow(one)} aria-label={`Show: ${labelOf(one)}`}>
                    <span className="picture">
                      <Preview entry={one} />
                    </span>
                    <span className="text">
                      <span className="words">{labelOf(one)}</span>
                      <span className="soft">{ago(one.at)}</span>
                    </span>
                  </button>
                  <span className="tools">
                    <label className="row">
                      <input type="checkbox" checked={compared.includes(one.id)} onChange={() => toggle(one.id)} /> Compare
                    </label>
                    <span className="row">
                      <Button size="small" look="quiet" icon={RotateCcw} aria-label="Run again with changes" title="Run again with changes" onClick={() => onTakeOver(one)} />
                      <Button size="small" look="quiet" icon={Trash2} aria-label="Delete from the history" title="Delete from the history"
                        onClick={() => void forget(one.id).then(() => queries.invalidateQueries({ queryKey: ["history"] }))} />
                    </span>
                  </span>
                </li>
              ))}
            </ul>
            {isComparing && pair.length === 2 && <Comparison pair={pair as [Entry, Entry]} onClose={() => setComparing(false)} />}
          </div>
        );
      }}
    </Loaded>
  );
}

function Preview({ entry }: { entry: Entry }) {
  if (entry.thumbnail) {
    return <Thumbnail blob={entry.thumbnail} alt="" />;
  }
  const kind = entry.media[0]?.kind;
  const Icon = kind === "audio" ? AudioLines : kind ? Box : FileText;
  return <Icon size={28} strokeWidth={1.3} aria-hidden="true" />;
}

function Comparison({ pair, onClose }: { pair: [Entry, Entry]; onClose: () => void }) {
  const names = [...new Set(pair.flatMap((one) => Object.keys(one.body)))];
  const said = (entry: Entry, name: string) => JSON.stringify(shorten(entry.body[name])) ?? "not set";
  return (
    <Dialog title="Side by side" onClose={onClose} className="wide">
      <div className="stack">
        <div className="side-by-side">
          {pair.map((one) => (
            <div className="stack" key={one.id}>
              <span className="soft small number">
                {ago(one.at)} · {duration(one.milliseconds)}
                {one.cost && ` · ${dollars(one.cost)}`}
              </span>
              <ResultView entry={{ ...one, document: null }} />
            </div>
          ))}
        </div>
        <div className="table-box">
          <table className="table">
            <caption className="visually-hidden">Inputs of the two runs</caption>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">First</th>
                <th scope="col">Second</th>
              </tr>
            </thead>
            <tbody>
              {names.map((name) => {
                const differs = said(pair[0], name) !== said(pair[1], name);
                return (
                  <tr key={name}>
                    <th scope="row">{words(name)}</th>
                    {pair.map((one) => (
                      <td key={one.id} className={differs ? "differs" : ""}>
                        {said(one, name)}
                      </td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      </div>
    </Dialog>
  );
}
