import { Download, ExternalLink, FileBox } from "lucide-react";
import { Suspense, lazy } from "react";
import type { Media } from "./extract";
import { useObjectUrl } from "./thumbnail";

const Scene = lazy(() => import("./scene"));

/** One thing that a model made, shown as what it is. */
export function MediaView({ media, label }: { media: Media; label: string }) {
  const blob = "blob" in media.source ? media.source.blob : null;
  const made = useObjectUrl(blob);
  if ("elsewhere" in media.source) {
    return (
      <div className="notice">
        <p>The provider keeps this {media.kind === "file" ? "file" : media.kind}; the console loads nothing from other places.</p>
        <p>
          <a href={media.source.elsewhere} target="_blank" rel="noreferrer noopener">
            Open it there <ExternalLink size={14} aria-hidden="true" />
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
        <a className="button small" href={url} download={`${label.replace(/\W+/g, "-").slice(0, 40) || "result"}.${endingOf(media)}`}>
          <Download size={15} aria-hidden="true" /> Save
        </a>
      </figcaption>
    </figure>
  );
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
