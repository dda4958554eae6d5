import { useEffect, useReducer } from "react";
import { currentWorkspace } from "../api/client";
import { newId } from "../browser";

export interface NodeProgress {
  state: "running" | "finished" | "cached" | "error";
  value: number;
  max: number;
}

/** What the events of one job have said so far. */
export interface Live {
  isConnected: boolean;
  nodes: Record<string, NodeProgress>;
  previews: Record<string, Blob>;
  isEnded: boolean;
}

type Message =
  | { kind: "connected"; works: boolean }
  | { kind: "told"; type: string; data: any }
  | { kind: "preview"; node: string; image: Blob };

const NOTHING: Live = { isConnected: false, nodes: {}, previews: {}, isEnded: false };
const AGAIN_MILLISECONDS = 1500;
const PREVIEW_WITH_METADATA = 4;

/** Follow a job over the WebSocket; a broken connection is made again. */
export function useLive(job: string | null): Live {
  const [live, dispatch] = useReducer(follow, NOTHING);
  useEffect(() => {
    if (!job) {
      return;
    }
    let socket: WebSocket;
    let timer: ReturnType<typeof setTimeout>;
    let isLeft = false;
    const open = () => {
      const query = new URLSearchParams({ clientId: newId(), workspace: currentWorkspace() });
      socket = new WebSocket(`${location.origin.replace("http", "ws")}/ws?${query}`);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => {
        socket.send(JSON.stringify({ type: "feature_flags", data: { supports_preview_metadata: true } }));
        dispatch({ kind: "connected", works: true });
      };
      socket.onmessage = ({ data }) => {
        const message = typeof data === "string" ? told(data, job) : preview(data, job);
        if (message) {
          dispatch(message);
        }
      };
      socket.onclose = () => {
        dispatch({ kind: "connected", works: false });
        if (!isLeft) {
          timer = setTimeout(open, AGAIN_MILLISECONDS);
        }
      };
    };
    open();
    return () => {
      isLeft = true;
      clearTimeout(timer);
      socket.close();
    };
  }, [job]);
  return live;
}

function told(text: string, job: string): Message | null {
  const { type, data } = JSON.parse(text);
  return data?.prompt_id === job ? { kind: "told", type, data } : null;
}

/** A picture of what a node is making: its kind, the length of its metadata, the metadata, the bytes. */
function preview(bytes: ArrayBuffer, job: string): Message | null {
  const view = new DataView(bytes);
  if (bytes.byteLength < 8 || view.getUint32(0) !== PREVIEW_WITH_METADATA) {
    return null;
  }
  const length = view.getUint32(4);
  const metadata = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  if (metadata.prompt_id !== job) {
    return null;
  }
  const image = new Blob([new Uint8Array(bytes, 8 + length)], { type: metadata.image_type });
  return { kind: "preview", node: metadata.display_node_id ?? metadata.node_id, image };
}

function follow(live: Live, message: Message): Live {
  switch (message.kind) {
    case "connected":
      return { ...live, isConnected: message.works };
    case "preview":
      return { ...live, previews: { ...live.previews, [message.node]: message.image } };
    case "told":
      return followTold(live, message.type, message.data);
  }
}

function followTold(live: Live, type: string, data: any): Live {
  const set = (changes: Record<string, NodeProgress>) => ({ ...live, nodes: { ...live.nodes, ...changes } });
  switch (type) {
    case "execution_start":
      return { ...NOTHING, isConnected: true };
    case "execution_cached":
      return set(Object.fromEntries(data.nodes.map((id: string) => [id, { state: "cached", value: 1, max: 1 }])));
    case "executing":
      return data.node === null ? { ...live, isEnded: true } : set({ [data.display_node ?? data.node]: { state: "running", value: 0, max: 1, ...keepSteps(live, data.node) } });
    case "progress":
      return set({ [data.node]: { state: "running", value: data.value, max: data.max } });
    case "progress_state":
      return set(Object.fromEntries(Object.values<any>(data.nodes).map((one) => [one.display_node_id ?? one.node_id, { state: one.state, value: one.value, max: one.max }])));
    case "executed":
      return set({ [data.display_node ?? data.node]: { state: "finished", value: 1, max: 1 } });
    case "execution_error":
      return set({ [data.node_id]: { state: "error", value: 0, max: 1 } });
    case "execution_success":
      return set(Object.fromEntries(Object.entries(live.nodes).filter(([, one]) => one.state === "running").map(([id]) => [id, { state: "finished", value: 1, max: 1 }])));
    default:
      return live;
  }
}

function keepSteps(live: Live, node: string): Partial<NodeProgress> {
  const known = live.nodes[node];
  return known?.state === "running" ? { value: known.value, max: known.max } : {};
}
