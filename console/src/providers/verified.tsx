import type { components } from "../api/schema";
import { ago, dateTime } from "../format";

type Verification = components["schemas"]["VerificationShown"];

/** Says when a model was last tried at its vendor, and by which version; a model that never was says so. */
export function Verified({ verified }: { verified: Verification | null }) {
  if (!verified) {
    return <span className="soft small">Never verified at its vendor by this installation.</span>;
  }
  return (
    <span className="soft small" title={`${dateTime(verified.at)} at ${verified.address}`}>
      Verified at its vendor {ago(verified.at)}, by version {verified.version}.
    </span>
  );
}
