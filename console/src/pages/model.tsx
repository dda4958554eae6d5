import { useQueryClient } from "@tanstack/react-query";
import { ArrowLeft, ListPlus, Play, Square } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { type Body, type Work, useEstimate, useWork } from "../api/runs-of-model";
import { useModel, useModelSchema } from "../api/models";
import { useMe } from "../api/session";
import { Button, CopyButton, Empty, FaultNotice, Loaded, PageHead, Tabs } from "../components/basics";
import { dollars, duration, roundDollars } from "../format";
import { JsonField, ObjectFields } from "../forms/fields";
import { type JsonSchema, initialBody, withoutEmpty } from "../forms/schema";
import { type Entry, keep } from "../history/store";
import { HistoryList } from "../history/history-list";
import { LANGUAGES, type Language, codeOf } from "../results/code";
import { shorten } from "../results/extract";
import { ResultView } from "../results/result-view";
import { ICONS } from "./icons";
import "../styles/model.css";
import "../styles/forms.css";

export function ModelPage({ params }: { params: { provider: string; model: string } }) {
  const { provider, model } = params;
  const about = useModel(provider, model);
  const schema = useModelSchema(provider, model);
  return (
    <>
      <Link className="button quiet small" href="/explore">
        <ArrowLeft size={15} aria-hidden="true" /> All models
      </Link>
      <PageHead title={model}>{about.data?.title ?? `By ${provider}.`}</PageHead>
      <Loaded query={about}>
        {(found) => (
          <Loaded query={schema}>
            {(written) => <Studio key={found.id} id={found.id} modality={found.modality ?? null} price={found.price ?? []} schema={written} />}
          </Loaded>
        )}
      </Loaded>
    </>
  );
}

interface StudioProperties {
  id: string;
  modality: string | null;
  price: readonly string[];
  schema: JsonSchema | null;
}

/** The form of a model, what it costs, what came of it, and what was made before. */
function Studio({ id, modality, price, schema }: StudioProperties) {
  const { me, workspace, mayRun } = useMe();
  const queries = useQueryClient();
  const [body, setBody] = useState<Body>(() => (schema ? initialBody(schema) : {}));
  const [version, setVersion] = useState(0);
  const [shown, setShown] = useState<Entry | null>(null);
  const sent = (withoutEmpty(body) ?? {}) as Body;
  const estimate = useEstimate(id, sent);
  const work = useWork(id, modality);
  const { state } = work;
  const result = useRef<HTMLElement>(null);

  useEffect(() => {
    if (state.kind === "done") {
      const entry: Entry = { ...state.entry, owner: me.id, workspace };
      setShown(entry);
      void keep(entry).then(() => queries.invalidateQueries({ queryKey: ["history"] }));
      void queries.invalidateQueries({ queryKey: ["workspace"] });
    }
  }, [state, me.id, workspace, queries]);

  const takeOver = (entry: Entry) => {
    setBody(entry.body);
    setVersion(version + 1);
    window.scrollTo({ top: 0, behavior: "smooth" });
  };
  const faults = state.kind === "failed" ? state.fault.fields : {};
  const isUnderWay = state.kind === "running" || state.kind === "queued";
  const start = (isQueued: boolean) => {
    void work.start(sent, isQueued);
    if (matchMedia("(max-width: 1080px)").matches) {
      result.current?.scrollIntoView({ behavior: "smooth", block: "start" });
    }
  };
  return (
    <div className="stack wide">
      <div className="studio">
        <form
          className="card"
          aria-label="What to make"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (!isUnderWay) {
              start(false);
            }
          }}
        >
          <div key={version}>
            {schema ? (
              <ObjectFields schema={schema} body={body} onChange={setBody} faults={faults} />
            ) : (
              <JsonField name="body" schema={{ description: "No schema is written down for this model: its own JSON, as its provider documents it." }} value={body} onChange={(value) => setBody((value ?? {}) as Body)} path="" faults={faults} />
            )}
          </div>
          <div className="run-bar">
            <EstimateLine estimate={estimate} price={price} />
            {mayRun ? (
              <div className="row">
                <Button icon={ListPlus} disabled={isUnderWay} onClick={() => start(true)} title="Runs when there is room, and can be left alone">
                  Queue
                </Button>
                <Button look="primary" type="submit" icon={Play} isBusy={isUnderWay}>
                  Run
                </Button>
              </div>
            ) : (
              <span className="soft small">As a viewer you may look, but not run.</span>
            )}
          </div>
        </form>
        <section className="card result" ref={result} aria-label="Result" aria-live="polite">
          <WorkView work={work} shown={shown} modality={modality} />
        </section>
      </div>
      <section className="card">
        <h2>The same call in code</h2>
        <Code id={id} body={sent} />
      </section>
      <section className="card">
        <h2>Made before</h2>
        <HistoryList model={id} shown={shown} onShow={setShown} onTakeOver={takeOver} />
      </section>
    </div>
  );
}

function EstimateLine({ estimate, price }: { estimate: ReturnType<typeof useEstimate>; price: readonly string[] }) {
  const { data, error, isFetching } = estimate;
  const list = price.map((one) => `$${one}`).join(", ");
  let words = list || "The provider says the price.";
  if (data?.amount) {
    words = `${dollars(data.amount)}`;
  } else if (data?.min_amount) {
    words = data.min_amount === data.max_amount ? `about ${roundDollars(data.min_amount)}` : `${roundDollars(data.min_amount)} to ${roundDollars(data.max_amount)}`;
  } else if (error && list) {
    words = list;
  }
  const isExact = Boolean(data?.amount ?? data?.min_amount);
  return (
    <span className="estimate" role="status" aria-busy={isFetching}>
      <span className="soft small">{isExact ? "This run costs " : "Price: "}</span>
      <strong>{words}</strong>
    </span>
  );
}

function WorkView({ work, shown, modality }: { work: Work; shown: Entry | null; modality: string | null }) {
  const { state } = work;
  const Icon = ICONS[modality ?? ""];
  switch (state.kind) {
    case "running":
    case "queued":
      return (
        <div className="stack">
          <h2>{state.kind === "running" ? "Running" : state.position > 0 ? `Waiting, ${state.position} ahead` : state.isBegun ? "Running" : "Waiting for its turn"}</h2>
          <progress aria-label="The run is under way" />
          <div className="row spread">
            <Elapsed since={state.since} />
            {state.kind === "queued" && (
              <Button size="small" look="danger" icon={Square} onClick={() => void work.cancel()}>
                Cancel
              </Button>
            )}
          </div>
          {state.kind === "queued" && (
            <p className="soft small">
              It goes on if you leave. It is on the page <Link href={`/runs/${state.id}`}>of this run</Link>.
            </p>
          )}
        </div>
      );
    case "failed":
      return (
        <div className="stack">
          <h2>Not made</h2>
          <FaultNotice error={state.fault} />
        </div>
      );
    default:
      return shown ? (
        <div className="stack">
          <div className="row spread">
            <h2>Result</h2>
            <span className="soft small number">
              {duration(shown.milliseconds)}
              {shown.cost && ` · ${dollars(shown.cost)}`}
            </span>
          </div>
          <ResultView entry={shown} />
        </div>
      ) : (
        <Empty icon={Icon} action={<Button size="small" onClick={() => document.querySelector<HTMLElement>("form.card textarea, form.card input")?.focus()}>Begin with the form</Button>}>
          Say what you want and press Run. What is made appears here.
        </Empty>
      );
  }
}

function Elapsed({ since }: { since: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return <span className="soft number" aria-hidden="true">{duration(Math.max(0, now - since))}</span>;
}

function Code({ id, body }: { id: string; body: Body }) {
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <>
      <Tabs label="Language" tabs={LANGUAGES.map((one) => [one, one] as const)} chosen={language} onChoose={setLanguage} />
      <div className="stack tight" role="tabpanel" aria-label={language}>
        <pre className="code-block" tabIndex={0}>{codeOf(language, location.origin, id, shorten(body) as Body)}</pre>
        <div className="row spread">
          <span className="soft small">
            FAIRLEAD_KEY is a key of this workspace; <Link href="/keys">make one</Link>.
          </span>
          <CopyButton text={codeOf(language, location.origin, id, body)} />
        </div>
      </div>
    </>
  );
}
