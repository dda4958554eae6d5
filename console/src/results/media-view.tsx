import { useQuery } from "@tanstack/react-query";
import { Download, ExternalLink, FileBox } from "lucide-react";
import { Suspense, lazy } from "react";
import { send } from "../api/client";
import { bytes } from "../format";
import type { Media } from "./extract";
import { useObjectUrl } from "./thumbnail";

const Scene = lazy(() => import("./scene"));

/** One result of a model, shown as what it is. */
export function MediaView({ media, label }: { media: Media; label: string }) {
  const blob = "blob" in media.source ? media.source.blob : null;
  const made = useObjectUrl(blob);
  if ("elsewhere" in media.source) {
    return (
      <div className="notice">
        <p>The provider stores this {media.kind === "file" ? "file" : media.kind}. The console loads nothing from other servers.</p>
        <p>
          <a href={media.source.elsewhere} target="_blank" rel="noreferrer noopener">
            Open it in a new tab <ExternalLink size={14} aria-hidden="true" />
          </a>
        </p>
      </div>
    );
  }
  const url = "url" in media.source ? media.source.url : made;
  if (!url) {
    return null;
  }
  return (
    <figure className="media">
      <Shown media={media} url={url} label={label} />
      <figcaption>
        {(media.kind === "3d" || media.kind === "file") && <FileFacts name={media.name} size={blob?.size} url={url} />}
        <a className="button small" href={url} download={media.name ?? `${label.replace(/\W+/g, "-").slice(0, 40) || "result"}.${endingOf(media)}`}>
          <Download size={15} aria-hidden="true" /> Save
        </a>
      </figcaption>
    </figure>
  );
}

/** The name and the size of what is not seen as a whole; the size of a link is asked for. */
function FileFacts({ name, size, url }: { name: string | undefined; size: number | undefined; url: string }) {
  const asked = useQuery({
    queryKey: ["size", url],
    queryFn: async () => Number((await send(url, { method: "HEAD" })).headers.get("content-length")),
    enabled: size === undefined,
    staleTime: Infinity,
    retry: false,
  });
  const known = size ?? asked.data;
  return <span className="soft small">{[name, known && bytes(known)].filter(Boolean).join(", ")}</span>;
}

function Shown({ media, url, label }: { media: Media; url: string; label: string }) {
  switch (media.kind) {
    case "image":
      return <img src={url} alt={label} />;
    case "video":
      return <video src={url} controls loop playsInline aria-label={label} />;
    case "audio":
      return <audio src={url} controls aria-label={label} />;
    case "3d":
      return (
        <Suspense fallback={<progress aria-label="Loading the 3D view" />}>
          <Scene url={url} label={label} />
        </Suspense>
      );
    default:
      return (
        <div className="empty">
          <FileBox size={36} aria-hidden="true" />
          <p>A file ({media.type || "of an unknown type"})</p>
        </div>
      );
  }
}

function endingOf(media: Media): string {
  const known: Record<string, string> = { "image/jpeg": "jpg", "audio/mpeg": "mp3", "model/gltf-binary": "glb", "video/quicktime": "mov" };
  return known[media.type] ?? (media.type.split("/")[1]?.replace(/\+.*/, "") || "bin");
}
