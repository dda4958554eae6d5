import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { api, documentOf, send, sendJson } from "./client";
import { newId } from "../browser";
import { Fault } from "./faults";
import { type Entry, keep } from "../history/store";
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

/** The price of a run with this body, asked for again whenever the typing rests. */
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

export type WorkState =
  | { kind: "idle" }
  | { kind: "running"; since: number; isWaiting: boolean }
  | { kind: "queued"; since: number; id: string; position: number; isBegun: boolean; detail: string | null }
  | { kind: "done"; entry: Entry }
  | { kind: "failed"; fault: Fault };

export interface Work {
  state: WorkState;
  start(body: Body, isQueued: boolean): Promise<void>;
  cancel(): Promise<void>;
}

const POLL_MILLISECONDS = 700;

/** One run of a model at a time, at once or through the queue, and its state. */
export function useWork(model: string, modality: string | null, owner: string, workspace: string): Work {
  const queries = useQueryClient();
  const [state, setState] = useState<WorkState>({ kind: "idle" });
  const path = `/v2/models/${model}`;

  const finish = useCallback(
    async (body: Body, since: number, id: string, answer: Response) => {
      const result = await readResult(answer, modality);
      const entry = { ...(await entryOf(model, body, since, id, result, creditsOf(answer))), owner, workspace };
      setState({ kind: "done", entry });
      await keep(entry); // also where the reader has left the page meanwhile
      void queries.invalidateQueries({ queryKey: ["history"] });
      void queries.invalidateQueries({ queryKey: ["workspace"] });
    },
    [model, modality, owner, workspace, queries],
  );

  const start = useCallback(
    async (body: Body, isQueued: boolean) => {
      const since = Date.now();
      const running = (isWaiting: boolean) => setState({ kind: "running", since, isWaiting });
      running(false);
      try {
        if (!isQueued) {
          const answer = await runOnce(path, body, () => running(true));
          await finish(body, since, requestIdOf(answer), answer);
          return;
        }
        const submitted = await (await sendJson(`${path}/requests`, body)).json();
        const id: string = submitted.request_id;
        let status = submitted;
        while (status.status !== "COMPLETED") {
          setState({ kind: "queued", since, id, position: status.queue_position, isBegun: status.status === "IN_PROGRESS", detail: status.detail ?? null });
          await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
          status = await askPatiently(`${path}/requests/${id}/status`);
        }
        await finish(body, since, id, await send(`${path}/requests/${id}`));
      } catch (error) {
        setState({ kind: "failed", fault: error instanceof Fault ? error : new Fault(0, String(error)) });
      }
    },
    [path, finish],
  );

  const cancel = useCallback(async () => {
    if (state.kind === "queued") {
      await send(`${path}/requests/${state.id}/cancel`, { method: "PUT" }).catch(() => null); // 409: it ended before
    }
  }, [path, state]);
  return { state, start, cancel };
}

/** Run a model; where the connection is lost meanwhile, the same call is sent again, and its key makes sure that it runs once. */
async function runOnce(path: string, body: Body, onLost: () => void): Promise<Response> {
  const headers = { "Idempotency-Key": newId() };
  for (let isAgain = false; ; isAgain = true) {
    try {
      return await sendJson(path, body, { headers });
    } catch (error) {
      const isStillRunning = error instanceof Fault && isAgain && error.status === 409 && error.retryAfterSeconds !== null;
      if (!(error instanceof Fault && (error.status === 0 || isStillRunning))) {
        throw error;
      }
      onLost();
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
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

async function entryOf(model: string, body: Body, since: number, id: string, result: Result, cost: string | null): Promise<Omit<Entry, "owner" | "workspace">> {
  const first = result.media.find(({ kind }) => kind === "image" || kind === "video"); // of a 3D model, its preview
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
  return headerOf(answer, "-request-id") ?? newId();
}

const CREDITS_PER_DOLLAR = 211;

/** The charge of a run in dollars, of the credits that its answer names. */
function creditsOf(answer: Response): string | null {
  const credits = headerOf(answer, "-credits-used");
  return credits === null ? null : (Number(credits) / CREDITS_PER_DOLLAR).toFixed(4);
}
