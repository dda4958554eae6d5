import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { api, documentOf, send, sendJson } from "./client";
import { Fault } from "./faults";
import type { Entry } from "../history/store";
import { type Result, readResult } from "../results/extract";
import { makeThumbnail } from "../results/thumbnail";

export type Body = Record<string, unknown>;

/** A value that follows another once it has rested. */
function useRested<T>(value: T, milliseconds: number): T {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return rested;
}

/** What a run with this body would cost, asked again whenever the typing rests. */
export function useEstimate(id: string, body: Body) {
  const text = useRested(JSON.stringify(body), 400);
  const [provider = "", model = ""] = id.split("/");
  return useQuery({
    queryKey: ["estimate", id, text],
    queryFn: () =>
      documentOf(api.POST("/v2/models/{provider}/{model}/estimate", { params: { path: { provider, model } }, body: JSON.parse(text) })),
    enabled: text !== "{}",
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
  });
}

type Made = Omit<Entry, "owner" | "workspace">;

export type WorkState =
  | { kind: "idle" }
  | { kind: "running"; since: number }
  | { kind: "queued"; since: number; id: string; position: number; isBegun: boolean }
  | { kind: "done"; entry: Made }
  | { kind: "failed"; fault: Fault };

export interface Work {
  state: WorkState;
  start(body: Body, isQueued: boolean): Promise<void>;
  cancel(): Promise<void>;
}

const POLL_MILLISECONDS = 700;

/** One run at a time of a model, at once or through the queue, and how it stands. */
export function useWork(model: string, modality: string | null): Work {
  const [state, setState] = useState<WorkState>({ kind: "idle" });
  const isThere = useRef(true);
  useEffect(() => {
    isThere.current = true;
    return () => {
      isThere.current = false;
    };
  }, []);
  const path = `/v2/models/${model}`;

  const finish = useCallback(
    async (body: Body, since: number, id: string, answer: Response) => {
      const result = await readResult(answer, modality);
      const entry = await entryOf(model, body, since, id, result, creditsOf(answer));
      setState({ kind: "done", entry });
    },
    [model, modality],
  );

  const start = useCallback(
    async (body: Body, isQueued: boolean) => {
      const since = Date.now();
      setState({ kind: "running", since });
      try {
        if (!isQueued) {
          const answer = await sendJson(path, body);
          await finish(body, since, requestIdOf(answer), answer);
          return;
        }
        const submitted = await (await sendJson(`${path}/requests`, body)).json();
        const id: string = submitted.request_id;
        let status = submitted;
        while (status.status !== "COMPLETED" && isThere.current) {
          setState({ kind: "queued", since, id, position: status.queue_position, isBegun: status.status === "IN_PROGRESS" });
          await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
          status = await askPatiently(`${path}/requests/${id}/status`);
        }
        if (isThere.current) {
          await finish(body, since, id, await send(`${path}/requests/${id}`));
        }
      } catch (error) {
        setState({ kind: "failed", fault: error instanceof Fault ? error : new Fault(0, String(error)) });
      }
    },
    [path, finish],
  );

  const cancel = useCallback(async () => {
    if (state.kind === "queued") {
      await send(`${path}/requests/${state.id}/cancel`, { method: "PUT" }).catch(() => null); // 409: it has ended already
    }
  }, [path, state]);
  return { state, start, cancel };
}

/** Ask for a status until it is answered: a queued run goes on while the connection is away. */
async function askPatiently(path: string): Promise<any> {
  for (;;) {
    try {
      return await (await send(path)).json();
    } catch (error) {
      const isPassing = error instanceof Fault && (error.status === 0 || error.status === 429 || error.status === 503);
      if (!isPassing) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

async function entryOf(model: string, body: Body, since: number, id: string, result: Result, cost: string | null): Promise<Made> {
  const first = result.media[0];
  const source = first && ("blob" in first.source ? first.source.blob : "url" in first.source ? first.source.url : null);
  return {
    ...result,
    id,
    model,
    body,
    at: Date.now(),
    milliseconds: Date.now() - since,
    cost,
    thumbnail: first && source ? await makeThumbnail(first.kind, source) : null,
  };
}

function headerOf(answer: Response, ending: string): string | null {
  return [...answer.headers].find(([name]) => name.endsWith(ending))?.[1] ?? null;
}

function requestIdOf(answer: Response): string {
  return headerOf(answer, "-request-id") ?? crypto.randomUUID();
}

const CREDITS_PER_DOLLAR = 211;

/** The charge of a run in dollars, of the credits that its answer names. */
function creditsOf(answer: Response): string | null {
  const credits = headerOf(answer, "-credits-used");
  return credits === null ? null : (Number(credits) / CREDITS_PER_DOLLAR).toFixed(4);
}
