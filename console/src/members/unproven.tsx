/** Asks whether somebody gets power whose address nobody has proven, once the server has refused it without a word. */
export function Unproven({ fault, value, onChange }: { fault: string | undefined; value: boolean; onChange: (value: boolean) => void }) {
  return (
    fault && (
      <div className="stack tight">
        <p className="notice bad" role="alert">
          Nobody has proven to hold this e-mail address. Whoever has its link or a key of the member gets this, also if that is somebody else.
        </p>
        <label className="check">
          <input type="checkbox" checked={value} onChange={(event) => onChange(event.target.checked)} /> Do it all the same
        </label>
      </div>
    )
  );
}
