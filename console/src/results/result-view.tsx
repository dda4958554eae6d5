import { CopyButton } from "../components/basics";
import type { Entry } from "../history/store";
import { MediaView } from "./media-view";

/** Everything that one run has produced. */
export function ResultView({ entry }: { entry: Pick<Entry, "media" | "texts" | "document" | "body" | "model"> }) {
  const label = labelOf(entry);
  return (
    <div className="stack">
      {entry.media.map((one, at) => (
        <MediaView key={at} media={one} label={entry.media.length > 1 ? `${label} (${at + 1})` : label} />
      ))}
      {entry.texts.map((one, at) => (
        <div className="stack tight" key={at}>
          <div className="prose">{one}</div>
          <div className="row end">
            <CopyButton text={one} />
          </div>
        </div>
      ))}
      {entry.document !== null && (
        <details className="more" open={entry.media.length + entry.texts.length === 0 || undefined}>
          <summary>Full response</summary>
          <pre className="code-block" tabIndex={0}>{JSON.stringify(entry.document, null, 2)}</pre>
        </details>
      )}
    </div>
  );
}

/** A description of a picture for people who do not see it: the words that it was made from. */
export function labelOf({ body, model }: Pick<Entry, "body" | "model">): string {
  const words = body.prompt ?? body.text ?? body.instruction ?? body.promptText ?? body.text_prompt;
  return typeof words === "string" && words ? words.slice(0, 160) : `Made by ${model}`;
}
