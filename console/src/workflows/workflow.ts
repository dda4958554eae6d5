import { isRecord } from "../api/faults";

/** A workflow in the API format: nodes by their ids. */
export type Workflow = Record<string, WorkflowNode>;

export interface WorkflowNode {
  class_type: string;
  inputs: Record<string, unknown>;
  _meta?: { title?: string };
}

/** What a class of nodes takes, as /api/object_info tells it. */
export interface NodeClass {
  display_name?: string;
  description?: string;
  input: { required?: Record<string, InputSpec>; optional?: Record<string, InputSpec> };
  output_node?: boolean;
}

export type InputSpec = [string | unknown[], Record<string, any>?];

/** Read the text of a file; the error is a sentence for people. */
export function readWorkflow(text: string): Workflow {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw new Error(`This file is not valid JSON: ${(error as Error).message}`);
  }
  const nodes = isRecord(document) && isRecord(document.prompt) ? document.prompt : document;
  if (isRecord(nodes) && Array.isArray(nodes.nodes) && Array.isArray(nodes.links)) {
    throw new Error("This is a workflow in the format of an editor. Export it in the API format, and drop that file.");
  }
  if (!isRecord(nodes) || Object.keys(nodes).length === 0 || !Object.values(nodes).every((one) => isRecord(one) && typeof one.class_type === "string")) {
    throw new Error("This JSON is not a workflow: it needs nodes by their ids, each with a class_type and inputs.");
  }
  return Object.fromEntries(Object.entries(nodes).map(([id, one]) => [id, { ...one, inputs: isRecord(one.inputs) ? one.inputs : {} } as WorkflowNode]));
}

/** Whether an input is linked to an output of another node. */
export function isLink(value: unknown): value is [string, number] {
  return Array.isArray(value) && value.length === 2 && typeof value[0] === "string" && typeof value[1] === "number";
}

export function titleOf(node: WorkflowNode, classes: Record<string, NodeClass>): string {
  return node._meta?.title ?? classes[node.class_type]?.display_name ?? node.class_type;
}

export interface Drawn {
  nodes: { id: string; column: number; row: number }[];
  links: { from: string; to: string }[];
  columns: number;
  rows: number;
}

/** Place nodes in columns, each behind all that it needs. */
export function layOut(workflow: Workflow): Drawn {
  const links = Object.entries(workflow).flatMap(([to, node]) =>
    Object.values(node.inputs).filter(isLink).filter(([from]) => from in workflow).map(([from]) => ({ from, to })),
  );
  const needs = new Map<string, string[]>();
  for (const { from, to } of links) {
    needs.set(to, [...(needs.get(to) ?? []), from]);
  }
  const columns = new Map<string, number>();
  const columnOf = (id: string, above: Set<string>): number => {
    const known = columns.get(id);
    if (known !== undefined || above.has(id)) {
      return known ?? 0; // a cycle is the server's to refuse
    }
    above.add(id);
    const column = Math.max(-1, ...(needs.get(id) ?? []).map((one) => columnOf(one, above))) + 1;
    above.delete(id);
    columns.set(id, column);
    return column;
  };
  const rows: number[] = [];
  const nodes = Object.keys(workflow).map((id) => {
    const column = columnOf(id, new Set());
    const row = rows[column] ?? 0;
    rows[column] = row + 1;
    return { id, column, row };
  });
  return { nodes, links, columns: rows.length, rows: Math.max(1, ...rows) };
}

/** A workflow to start with: a picture by the built-in model, enlarged and inverted. */
export const EXAMPLE: Workflow = {
  "1": { class_type: "PartnerLocalProceduralImage1", inputs: { prompt: "a lighthouse above a stormy sea at dusk", width: 640, height: 448, seed: 7 }, _meta: { title: "Make a picture" } },
  "2": { class_type: "ImageScale", inputs: { image: ["1", 0], upscale_method: "lanczos", width: 960, height: 0, crop: "disabled" }, _meta: { title: "Enlarge it" } },
  "3": { class_type: "ImageInvert", inputs: { image: ["1", 0] }, _meta: { title: "Invert its colours" } },
  "4": { class_type: "SaveImage", inputs: { images: ["2", 0], filename_prefix: "lighthouse" }, _meta: { title: "Save the picture" } },
  "5": { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "lighthouse-negative" }, _meta: { title: "Save the negative" } },
};
