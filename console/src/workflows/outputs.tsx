import { useQuery } from "@tanstack/react-query";
import { send } from "../api/client";
import { FaultNotice, Loading } from "../components/basics";
import { isRecord } from "../api/faults";
import { type MediaKind, kindOfType } from "../results/extract";
import { MediaView } from "../results/media-view";

interface NamedFile {
  filename: string;
  subfolder: string;
  type: string;
}

/** The files and texts that the nodes of a job have put out. */
export function Outputs({ outputs, titles }: { outputs: Record<string, any>; titles: Record<string, string> }) {
  return (
    <div className="outputs">
      {Object.entries(outputs).map(([node, shown]) => {
        const values = Object.values(isRecord(shown) ? shown : {}).flat();
        const files = values.filter((one): one is NamedFile => isRecord(one) && typeof one.filename === "string");
        const texts = values.filter((one): one is string => typeof one === "string");
        return (
          <section className="stack tight" key={node}>
            <h3>{titles[node] ?? `Node ${node}`}</h3>
            {files.map((file) => (
              <OutputFile key={file.filename} file={file} />
            ))}
            {texts.map((text, at) => (
              <div className="prose" key={at}>
                {text}
              </div>
            ))}
          </section>
        );
      })}
    </div>
  );
}

function OutputFile({ file }: { file: NamedFile }) {
  const query = new URLSearchParams({ filename: file.filename, subfolder: file.subfolder ?? "", type: file.type });
  const found = useQuery({
    queryKey: ["file", query.toString()],
    queryFn: async () => (await send(`/api/view?${query}`)).blob(),
    staleTime: Infinity,
    gcTime: 60_000,
  });
  if (!found.data) {
    return found.error ? <FaultNotice error={found.error} /> : <Loading>Fetching {file.filename}…</Loading>;
  }
  const kind: MediaKind = file.filename.endsWith(".glb") ? "3d" : kindOfType(found.data.type);
  return <MediaView media={{ kind, type: found.data.type, name: file.filename, source: { blob: found.data } }} label={file.filename} />;
}
