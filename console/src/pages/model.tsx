import { KeyRound, ListPlus, Play, Square } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { type Body, type Work, type WorkState, useEstimate, useWork } from "../api/runs-of-model";
import { useModel, useModelSchema, useProviderKeys } from "../api/models";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { BackLink, Button, CopyButton, Empty, FaultNotice, Loaded, Loading, PageHead, Tabs } from "../components/basics";
import { dollars, duration, roundDollars } from "../format";
import { JsonField, ObjectFields } from "../forms/fields";
import { type JsonSchema, initialBody, withoutEmpty } from "../forms/schema";
import type { Entry } from "../history/store";
import { HistoryList } from "../history/history-list";
import { CautionNotices } from "../providers/cautions";
import { Verified } from "../providers/verified";
import { LANGUAGES, type Language, codeOf } from "../results/code";
import { shorten } from "../results/extract";
import { ResultView } from "../results/result-view";
import { ICONS } from "./icons";
import "../styles/model.css";
import "../styles/forms.css";

export function ModelPage({ params }: { params: { provider: string; model: string } }) {
  const { provider, model } = params;
  const { workspace } = useMe();
  const about = useModel(provider, model);
  const schema = useModelSchema(provider, model);
  const keys = useProviderKeys(workspace); // asked for here: a notice that came later would move the form
  return (
    <>
      <BackLink href="/explore">All models</BackLink>
      <PageHead title={model}>{about.data?.title ?? `By ${provider}.`}</PageHead>
      <Loaded query={about}>
        {(found) => (
          <Loaded query={schema}>
            {(written) => (keys.isPending ? <Loading /> : <Studio key={found.id} model={found} schema={written} />)}
          </Loaded>
        )}
      </Loaded>
    </>
  );
}

type Model = components["schemas"]["ModelInFull"];

/** The form of a model, its price, its result, and earlier results. */
function Studio({ model, schema }: { model: Model; schema: JsonSchema | null }) {
  const { id, modality } = model;
  const { me, workspace, mayRun } = useMe();
  const [body, setBody] = useState<Body>(() => (schema ? initialBody(schema) : {}));
  const [version, setVersion] = useState(0);
  const [shown, setShown] = useState<Entry | null>(null);
  const sent = (withoutEmpty(body) ?? {}) as Body;
  const estimate = useEstimate(id, sent);
  const work = useWork(id, modality, me.id, workspace);
  const { state } = work;
  const result = useRef<HTMLElement>(null);

  useEffect(() => {
    if (state.kind === "done") {
      setShown(state.entry);
    }
  }, [state]);

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
      <Availability model={model} />
      <div className="studio">
        <form
          className="card"
          aria-label="Input"
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
              <JsonField name="body" schema={{ description: "This model has no schema here. Write its input as its provider documents it." }} value={body} onChange={(value) => setBody((value ?? {}) as Body)} path="" faults={faults} />
            )}
          </div>
          <div className="run-bar">
            <EstimateLine estimate={estimate} price={model.prices} />
            {mayRun ? (
              <div className="row">
                <Button icon={ListPlus} disabled={isUnderWay} onClick={() => start(true)} title="Waits for a free slot; you may leave the page">
                  Queue
                </Button>
                <Button look="primary" type="submit" icon={Play} isBusy={isUnderWay}>
                  Run
                </Button>
              </div>
            ) : (
              <span className="soft small">Viewers cannot run models.</span>
            )}
          </div>
        </form>
        <section className="card result" ref={result} aria-label="Result" aria-live="polite">
          <WorkView work={work} shown={shown} modality={modality} />
        </section>
      </div>
      <section className="card">
        <h2>Call it from code</h2>
        <Code id={id} body={sent} />
      </section>
      <section className="card">
        <h2>Earlier results</h2>
        <HistoryList model={id} shown={shown} onShow={setShown} onTakeOver={takeOver} />
      </section>
    </div>
  );
}

/** Says what stands in the way of a run: no key at any provider, or a model that goes away. */
function Availability({ model }: { model: Model }) {
  const { workspace, mayChange } = useMe();
  const keys = useProviderKeys(workspace);
  const hasOwnKey = keys.data?.items.some((one) => one.provider === model.provider) ?? true;
  return (
    <>
      {!model.is_configured && !hasOwnKey && (
        <div className="notice warn">
          <p>
            This server has no key at {model.provider}, so runs of this model are refused. An operator can set one where the server is started; an owner can store a key of the workspace.
          </p>
          {mayChange && (
            <p>
              <Link className="button small" href="/providers?tab=keys">
                <KeyRound size={15} aria-hidden="true" /> Store a key
              </Link>
            </p>
          )}
        </div>
      )}
      {model.retires_on && <p className="notice warn">Its provider retires this model on {model.retires_on}.</p>}
      <CautionNotices cautions={model.cautions} />
      <p>
        <Verified verified={model.verified} />
      </p>
    </>
  );
}

function EstimateLine({ estimate, price }: { estimate: ReturnType<typeof useEstimate>; price: readonly string[] }) {
  const { data, error, isFetching } = estimate;
  const list = price.map((one) => `$${one}`).join(", ");
  let words = list || "known when the run ends";
  if (data?.amount) {
    words = `${dollars(data.amount)}`;
  } else if (data?.min_amount) {
    words = data.min_amount === data.max_amount ? `about ${roundDollars(data.min_amount)}` : `${roundDollars(data.min_amount)} to ${roundDollars(data.max_amount)}`;
    if (data.typical_amount) {
      words += `, usually ${roundDollars(data.typical_amount)}`;
    }
  } else if (error && list) {
    words = list;
  }
  const isExact = Boolean(data?.amount ?? data?.min_amount);
  return (
    <span className="estimate" role="status" aria-busy={isFetching} title={words}>
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
          <h2>{headingOf(state)}</h2>
          <progress aria-label="The run is under way" />
          <div className="row spread">
            <Elapsed since={state.since} />
            {state.kind === "queued" && (
              <Button size="small" look="danger" icon={Square} onClick={() => void work.cancel()}>
                Cancel
              </Button>
            )}
          </div>
          {state.kind === "queued" && state.detail && <p className="small">{state.detail}</p>}
          {state.kind === "queued" && (
            <p className="soft small">
              It continues if you leave. <Link href={`/runs/${state.id}`}>Open this run</Link> to follow it.
            </p>
          )}
          {state.kind === "running" && state.isWaiting && <p className="soft small">The connection was lost. The run continues on the server, and is charged once.</p>}
        </div>
      );
    case "failed":
      return (
        <div className="stack">
          <h2>The run failed</h2>
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
        <Empty icon={Icon} action={<Button size="small" onClick={() => document.querySelector<HTMLElement>("form.card textarea, form.card input")?.focus()}>Fill in the form</Button>}>
          Fill in the form and press Run. The result appears here.
        </Empty>
      );
  }
}

function headingOf(state: WorkState): string {
  if (state.kind !== "queued" || state.isBegun) {
    return "Running";
  }
  return state.position > 0 ? `In the queue: ${state.position} ahead` : "Next in the queue";
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
            FAIRLEAD_KEY is a key of this workspace. <Link href="/keys">Create one</Link>
          </span>
          <CopyButton text={codeOf(language, location.origin, id, body)} />
        </div>
      </div>
    </>
  );
}
