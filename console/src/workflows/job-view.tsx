import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Square } from "lucide-react";
import { useEffect } from "react";
import { api, documentOf } from "../api/client";
import { useMe } from "../api/session";
import { Button, Loaded, StateTag } from "../components/basics";
import { useToasts } from "../components/toasts";
import { duration } from "../format";
import { Thumbnail } from "../results/thumbnail";
import { Graph } from "./graph";
import { type Live, useLive } from "./live";
import { Outputs } from "./outputs";
import { type NodeClass, type Workflow, titleOf } from "./workflow";
import "../styles/workflows.css";

const LIVE = new Set(["pending", "in_progress"]);

export function useNodeClasses() {
  return useQuery({
    queryKey: ["object-info"],
    queryFn: async () => (await documentOf(api.GET("/api/object_info"))) as unknown as Record<string, NodeClass>,
    staleTime: 600_000,
  });
}

/** One job while it runs: its graph with progress, previews and outputs. */
export function JobView({ id }: { id: string }) {
  const { mayRun } = useMe();
  const queries = useQueryClient();
  const { tellFault } = useToasts();
  const classes = useNodeClasses();
  const job = useQuery({
    queryKey: ["job", id],
    queryFn: () => documentOf(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: id } } })),
    refetchInterval: ({ state }) => (state.data && !LIVE.has(state.data.status) ? false : 2000),
  });
  const isLive = !job.data || LIVE.has(job.data.status);
  const live = useLive(isLive ? id : null);
  useEffect(() => {
    if (live.isEnded) {
      void queries.invalidateQueries({ queryKey: ["job", id] });
      void queries.invalidateQueries({ queryKey: ["workspace"] });
    }
  }, [live.isEnded, id, queries]);
  return (
    <Loaded query={job}>
      {(found) => {
        const workflow = (found.workflow?.prompt ?? {}) as unknown as Workflow;
        const known = classes.data ?? {};
        const titles = Object.fromEntries(Object.entries(workflow).map(([node, one]) => [node, titleOf(one, known)]));
        const done = Object.values(live.nodes).filter((one) => one.state !== "running").length;
        const count = Object.keys(workflow).length;
        const error = found.execution_error as any;
        return (
          <div className="stack">
            <div className="row spread">
              <div className="row" role="status">
                <StateTag state={found.status} />
                {isLive && <span className="soft small number">{done} of {count} nodes</span>}
                {found.execution_start_time && found.execution_end_time && <span className="soft small number">{duration(found.execution_end_time - found.execution_start_time)}</span>}
              </div>
              {isLive && mayRun && (
                <Button size="small" look="danger" icon={Square}
                  onClick={() => void documentOf(api.POST("/api/jobs/{job_id}/cancel", { params: { path: { job_id: id } } })).then(() => job.refetch(), tellFault)}>
                  Cancel
                </Button>
              )}
            </div>
            {isLive && <progress aria-label="The job is under way" max={count || 1} value={found.status === "pending" ? undefined : done} />}
            {count > 0 && <Graph workflow={workflow} classes={known} progress={isLive ? live.nodes : ended(workflow, found.status, error?.node_id, live)} />}
            {isLive && <Previews live={live} titles={titles} />}
            {error && (
              <div className="notice bad" role="alert">
                <strong>{error.exception_type}</strong> {error.node_id ? `in ${titles[error.node_id] ?? error.node_type}` : ""}: {error.exception_message}
              </div>
            )}
            {found.outputs && Object.keys(found.outputs).length > 0 && <Outputs outputs={found.outputs as Record<string, any>} titles={titles} />}
          </div>
        );
      }}
    </Loaded>
  );
}

/** The states of the nodes of an ended job, as far as they are known afterwards. */
function ended(workflow: Workflow, status: string, failed: string | undefined, live: Live): Live["nodes"] {
  const nodes = { ...live.nodes };
  if (status === "completed") {
    for (const id of Object.keys(workflow)) {
      nodes[id] ??= { state: "finished", value: 1, max: 1 };
    }
  }
  if (failed) {
    nodes[failed] = { state: "error", value: 0, max: 1 };
  }
  return nodes;
}

function Previews({ live, titles }: { live: Live; titles: Record<string, string> }) {
  const previews = Object.entries(live.previews);
  if (previews.length === 0) {
    return null;
  }
  return (
    <div className="previews" aria-label="Previews" role="group">
      {previews.map(([node, image]) => (
        <figure key={node}>
          <Thumbnail blob={image} alt={`Preview of ${titles[node] ?? node}`} />
          <figcaption className="small soft">{titles[node] ?? node}</figcaption>
        </figure>
      ))}
    </div>
  );
}
