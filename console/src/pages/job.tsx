import { ArrowLeft } from "lucide-react";
import { Link } from "wouter";
import { PageHead } from "../components/basics";
import { JobView } from "../workflows/job-view";

export function JobPage({ params }: { params: { id: string } }) {
  return (
    <>
      <Link className="button quiet small" href="/jobs">
        <ArrowLeft size={15} aria-hidden="true" /> All jobs
      </Link>
      <PageHead title={`Job ${params.id.slice(0, 8)}`}>{params.id}</PageHead>
      <section className="card">
        <JobView id={params.id} />
      </section>
    </>
  );
}
