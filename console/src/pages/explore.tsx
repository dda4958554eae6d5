import { useQuery } from "@tanstack/react-query";
import { KeyRound, Search, SearchX } from "lucide-react";
import { useDeferredValue, useMemo, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { type CatalogModel, MODALITIES, makerOf, useCatalog } from "../api/models";
import { Button, Empty, Field, Loaded, PageHead } from "../components/basics";
import { newest } from "../history/store";
import { useMe } from "../api/session";
import { Cover } from "../explore/cover";
import { SAMPLES } from "../explore/samples";
import { Thumbnail } from "../results/thumbnail";
import { ICONS } from "./icons";
import "../styles/explore.css";

const SHOWN_AT_ONCE = 60;

interface Wanted {
  q: string;
  modality: string;
  provider: string;
  isReady: boolean;
}

export function Explore() {
  const catalog = useCatalog();
  const [search, setSearch] = useSearchParams();
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const wanted: Wanted = { q: search.get("q") ?? "", modality: search.get("modality") ?? "", provider: search.get("provider") ?? "", isReady: search.get("ready") === "1" };
  const deferred = useDeferredValue(wanted.q);
  const change = (name: string, value: string) => {
    setShown(SHOWN_AT_ONCE);
    setSearch((before) => {
      if (value) {
        before.set(name, value);
      } else {
        before.delete(name);
      }
      return before;
    }, { replace: true });
  };
  const providers = useMemo(() => [...new Set(catalog.data?.map((one) => makerOf(one.id)))].sort(), [catalog.data]);
  const hasUnready = catalog.data?.some((one) => !one.is_configured);
  return (
    <>
      <PageHead title="Explore">Choose a model, describe what you want, and see the result and its cost.</PageHead>
      <div className="toolbar" role="search">
        <Field label="Search" className="search">
          {(control) => (
            <input {...control} className="input" type="search" placeholder="A name, such as flux or video" maxLength={200} value={wanted.q} onChange={(event) => change("q", event.target.value)} />
          )}
        </Field>
        <Field label="Maker">
          {(control) => (
            <select {...control} className="input" value={wanted.provider} onChange={(event) => change("provider", event.target.value)}>
              <option value="">All makers</option>
              {providers.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <div className="segments" role="group" aria-label="Kind of result">
          <button type="button" aria-pressed={wanted.modality === ""} onClick={() => change("modality", "")}>
            All
          </button>
          {MODALITIES.map(([name, title]) => (
            <button key={name} type="button" aria-pressed={wanted.modality === name} onClick={() => change("modality", name)}>
              {title}
            </button>
          ))}
        </div>
        {(hasUnready || wanted.isReady) && (
          <label className="check">
            <input type="checkbox" checked={wanted.isReady} onChange={(event) => change("ready", event.target.checked ? "1" : "")} /> Only models that are ready
          </label>
        )}
      </div>
      <Loaded query={catalog}>
        {(models) => {
          const found = models.filter((one) => fits(one, { ...wanted, q: deferred })).sort(readyFirst);
          return found.length === 0 ? (
            <Empty icon={SearchX} action={<Button icon={Search} onClick={() => setSearch(new URLSearchParams(), { replace: true })}>Show all models</Button>}>
              {models.length === 0 ? "This workspace may not run any model." : "No model matches this search."}
            </Empty>
          ) : (
            <div className="stack">
              <p className="soft small" role="status">
                {found.length === 1 ? "1 model" : `${found.length} models`}
              </p>
              <ul className="model-grid">
                {found.slice(0, shown).map((one) => (
                  <li key={one.id}>
                    <ModelCard model={one} />
                  </li>
                ))}
              </ul>
              {found.length > shown && (
                <div className="row centre">
                  <Button onClick={() => setShown(shown + SHOWN_AT_ONCE)}>Show more models</Button>
                </div>
              )}
            </div>
          );
        }}
      </Loaded>
    </>
  );
}

/** The built-in models come first, because they need no key; then those whose provider can be called. */
function readyFirst(one: CatalogModel, other: CatalogModel): number {
  return rank(one) - rank(other);
}

function rank(model: CatalogModel): number {
  return makerOf(model.id) === "local" ? (model.id in SAMPLES ? 0 : 1) : model.is_configured ? 2 : 3;
}

function fits(model: CatalogModel, { q, modality, provider, isReady }: Wanted): boolean {
  const text = `${model.id} ${model.title}`.toLowerCase();
  return (
    (!modality || model.modality === modality) &&
    (!provider || makerOf(model.id) === provider) &&
    (!isReady || model.is_configured) &&
    q.toLowerCase().split(/\s+/).every((word) => text.includes(word))
  );
}

function ModelCard({ model }: { model: CatalogModel }) {
  const { me, workspace } = useMe();
  const latest = useQuery({
    queryKey: ["newest", me.id, workspace, model.id],
    queryFn: async () => (await newest(me.id, workspace, model.id)) ?? null,
    staleTime: 0,
  });
  const Icon = ICONS[model.modality ?? ""];
  return (
    <article className="model-card">
      <div className="sample">
        <Sample model={model} picture={latest.data?.thumbnail ?? null} />
      </div>
      <div className="about">
        <h2>
          <Link href={`/models/${model.id}`}>{model.id.slice(model.id.indexOf("/") + 1)}</Link>
        </h2>
        <p className="title">{model.title}</p>
        <div className="row small facts-line">
          <span>{makerOf(model.id)}</span>
          {Icon && model.modality && (
            <span className="kind">
              <Icon size={14} aria-hidden="true" /> {nameOf(model.modality)}
            </span>
          )}
        </div>
        <div className="row spread small">
          <span className="price">{model.prices.length > 0 ? `$${model.prices[0]}` : "Price by estimate"}</span>
          {!model.is_configured && (
            <span className="tag">
              <KeyRound size={12} aria-hidden="true" /> needs a key
            </span>
          )}
          {model.retires_on && <span className="tag warn">retires {model.retires_on}</span>}
        </div>
      </div>
    </article>
  );
}

/** The newest result of this browser, a sample that the model has made, or a drawing of what it makes. */
function Sample({ model, picture }: { model: CatalogModel; picture: Blob | null }) {
  if (picture) {
    return <Thumbnail blob={picture} alt="" />;
  }
  const sample = SAMPLES[model.id];
  return sample ? <img src={sample} alt="" loading="lazy" /> : <Cover id={model.id} modality={model.modality} />;
}

function nameOf(modality: string): string {
  return MODALITIES.find(([name]) => name === modality)?.[1] ?? modality;
}
