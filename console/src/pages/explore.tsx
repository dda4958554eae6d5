import { useQuery } from "@tanstack/react-query";
import { Box, Search, SearchX } from "lucide-react";
import { useDeferredValue, useMemo, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { type CatalogModel, MODALITIES, useCatalog } from "../api/models";
import { Button, Empty, Field, Loaded, PageHead } from "../components/basics";
import { newest } from "../history/store";
import { useMe } from "../api/session";
import { Thumbnail } from "../results/thumbnail";
import { ICONS } from "./icons";
import "../styles/explore.css";



const SHOWN_AT_ONCE = 60;

export function Explore() {
  const catalog = useCatalog();
  const [search, setSearch] = useSearchParams();
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const wanted = { q: search.get("q") ?? "", modality: search.get("modality") ?? "", provider: search.get("provider") ?? "" };
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
  const providers = useMemo(() => [...new Set(catalog.data?.map((one) => one.provider))].sort(), [catalog.data]);
  return (
    <>
      <PageHead title="Explore">Pick a model, say what you want, and see what it makes and costs.</PageHead>
      <div className="toolbar" role="search">
        <Field label="Search" className="search">
          {(control) => (
            <input {...control} className="input" type="search" placeholder="A name, such as flux or video" maxLength={200} value={wanted.q} onChange={(event) => change("q", event.target.value)} />
          )}
        </Field>
        <Field label="Provider">
          {(control) => (
            <select {...control} className="input" value={wanted.provider} onChange={(event) => change("provider", event.target.value)}>
              <option value="">All providers</option>
              {providers.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <div className="segments" role="group" aria-label="What is made">
          <button type="button" aria-pressed={wanted.modality === ""} onClick={() => change("modality", "")}>
            All
          </button>
          {MODALITIES.map(([name, title]) => (
            <button key={name} type="button" aria-pressed={wanted.modality === name} onClick={() => change("modality", name)}>
              {title}
            </button>
          ))}
        </div>
      </div>
      <Loaded query={catalog}>
        {(models) => {
          const found = models.filter((one) => fits(one, { ...wanted, q: deferred })).sort(localFirst);
          return found.length === 0 ? (
            <Empty icon={SearchX} action={<Button icon={Search} onClick={() => setSearch(new URLSearchParams(), { replace: true })}>Show all models</Button>}>
              {models.length === 0 ? "No model can be run in this workspace." : "No model fits this search."}
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

/** The models that this installation makes itself stand first: they need no key. */
function localFirst(one: CatalogModel, other: CatalogModel): number {
  return Number(other.provider === "local") - Number(one.provider === "local");
}

function fits(model: CatalogModel, { q, modality, provider }: { q: string; modality: string; provider: string }): boolean {
  const text = `${model.id} ${model.title ?? ""}`.toLowerCase();
  return (!modality || model.modality === modality) && (!provider || model.provider === provider) && q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function ModelCard({ model }: { model: CatalogModel }) {
  const { me, workspace } = useMe();
  const made = useQuery({
    queryKey: ["newest", me.id, workspace, model.id],
    queryFn: async () => (await newest(me.id, workspace, model.id)) ?? null,
    staleTime: 0,
  });
  const Icon = ICONS[model.modality ?? ""] ?? Box;
  return (
    <article className="model-card">
      <div className={`sample ${made.data?.thumbnail ? "" : `tint-${tintOf(model.provider)}`}`}>
        {made.data?.thumbnail ? <Thumbnail blob={made.data.thumbnail} alt="" /> : <Icon size={34} strokeWidth={1.3} aria-hidden="true" />}
      </div>
      <div className="about">
        <h2>
          <Link href={`/models/${model.provider}/${model.model}`}>{model.model}</Link>
        </h2>
        <div className="row small">
          <span className="tag">{model.provider}</span>
          {model.modality && <span className="soft">{nameOf(model.modality)}</span>}
        </div>
        <p className="title">{model.title}</p>
        <p className="price">{model.price?.length ? `$${model.price[0]}` : "Price on request of an estimate"}</p>
      </div>
    </article>
  );
}

function nameOf(modality: string): string {
  return MODALITIES.find(([name]) => name === modality)?.[1] ?? modality;
}

const TINTS = 6;

/** One of a few colours for a provider, the same each time. */
function tintOf(provider: string): number {
  return [...provider].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % TINTS;
}
