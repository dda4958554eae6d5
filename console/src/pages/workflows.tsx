import { FileJson, FileUp, Play, Workflow as WorkflowIcon, X } from "lucide-react";
import { type DragEvent, type ReactNode, useRef, useState } from "react";
import { Link } from "wouter";
import { sendJson } from "../api/client";
import { Fault } from "../api/faults";
import { useMe } from "../api/session";
import { Button, Empty, FaultNotice, Loaded, PageHead } from "../components/basics";
import { Graph } from "../workflows/graph";
import { WorkflowInputs } from "../workflows/inputs";
import { JobView, useNodeClasses } from "../workflows/job-view";
import { EXAMPLE, type Workflow, readWorkflow } from "../workflows/workflow";
import "../styles/workflows.css";
import "../styles/forms.css";

export function Workflows() {
  const [workflow, setWorkflow] = useState<Workflow | null>(null);
  const [problem, setProblem] = useState("");
  const [job, setJob] = useState<string | null>(null);
  const take = async (file: File | undefined) => {
    if (!file) {
      return;
    }
    try {
      setWorkflow(readWorkflow(await file.text()));
      setJob(null);
      setProblem("");
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const begin = (one: Workflow) => {
    setWorkflow(one);
    setJob(null);
  };
  return (
    <>
      <PageHead title="Workflows" actions={workflow && <Button icon={X} onClick={() => setWorkflow(null)}>Open another</Button>}>
        Drop a workflow, change its inputs, and watch it run.
      </PageHead>
      {problem && <p className="notice bad" role="alert">{problem}</p>}
      <Landing onFile={take} isShown={!workflow}>
        {workflow ? (
          <Bench workflow={workflow} onChange={setWorkflow} job={job} onJob={setJob} />
        ) : (
          <Start onFile={take} onExample={() => begin(EXAMPLE)} />
        )}
      </Landing>
    </>
  );
}

function Landing({ onFile, isShown, children }: { onFile: (file: File | undefined) => void; isShown: boolean; children: ReactNode }) {
  const [isOver, setOver] = useState(false);
  const over = (event: DragEvent) => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <div
      className={`${isShown ? "landing" : ""} ${isOver ? "over" : ""}`}
      onDragOver={over}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        onFile(event.dataTransfer.files[0]);
      }}
    >
      {children}
    </div>
  );
}

function Start({ onFile, onExample }: { onFile: (file: File | undefined) => void; onExample: () => void }) {
  const chooser = useRef<HTMLInputElement>(null);
  return (
    <Empty
      icon={FileJson}
      action={
        <div className="row">
          <Button look="primary" icon={FileUp} onClick={() => chooser.current?.click()}>
            Choose a file
          </Button>
          <Button icon={WorkflowIcon} onClick={onExample}>
            Try an example
          </Button>
          <input ref={chooser} hidden type="file" accept=".json,application/json" data-testid="workflow-file" onChange={(event) => {
              onFile(event.target.files?.[0]);
              event.target.value = ""; // the same file may be chosen again, changed
            }} />
        </div>
      }
    >
      Drop the JSON file of a workflow here, in the API format that editors export. Its inputs become a form.
    </Empty>
  );
}

interface BenchProperties {
  workflow: Workflow;
  onChange: (workflow: Workflow) => void;
  job: string | null;
  onJob: (id: string | null) => void;
}

function Bench({ workflow, onChange, job, onJob }: BenchProperties) {
  const { mayRun } = useMe();
  const classes = useNodeClasses();
  const [fault, setFault] = useState<Fault | null>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setFault(null);
    try {
      const taken = await (await sendJson("/api/prompt", { prompt: workflow })).json();
      onJob(taken.prompt_id);
    } catch (error) {
      onJob(null);
      setFault(error instanceof Fault ? error : new Fault(0, String(error)));
    } finally {
      setBusy(false);
    }
  };
  const faulty = new Set(Object.keys(fault?.fields ?? {}).map((path) => path.split("/")[0]!));
  return (
    <Loaded query={classes}>
      {(known) => (
        <div className="stack wide">
          <form
            className="card stack"
            aria-label="Inputs of the workflow"
            noValidate
            onSubmit={(event) => {
              event.preventDefault();
              void run();
            }}
          >
            <h2>Inputs</h2>
            {fault && <FaultNotice error={fault} />}
            <WorkflowInputs workflow={workflow} classes={known} onChange={onChange} faults={fault?.fields ?? {}} />
            <div className="row end">
              {mayRun ? (
                <Button look="primary" type="submit" icon={Play} isBusy={isBusy}>
                  Run
                </Button>
              ) : (
                <span className="soft small">Viewers cannot run workflows.</span>
              )}
            </div>
          </form>
          <section className="card stack" aria-label="The job">
            <div className="row spread">
              <h2>{job ? "Job" : "Nodes"}</h2>
              {job && <Link href={`/jobs/${job}`}>Open the job</Link>}
            </div>
            {job ? <JobView key={job} id={job} /> : <Graph workflow={workflow} classes={known} progress={{}} faultyNodes={faulty} />}
          </section>
        </div>
      )}
    </Loaded>
  );
}
