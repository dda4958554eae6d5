import { X } from "lucide-react";
import { type ReactNode, createContext, useCallback, useContext, useState } from "react";
import { Fault } from "../api/faults";
import { Button } from "./basics";

interface Toast {
  id: number;
  message: string;
  isBad: boolean;
}

interface Toasts {
  tell(message: string): void;
  /** Show what went wrong, in the words of the server. */
  tellFault(error: unknown): void;
}

const ToastsContext = createContext<Toasts>({ tell: () => undefined, tellFault: () => undefined });
const SECONDS = 6;
let last = 0;

/** Short messages that disappear by themselves; screen readers read each of them. */
export function ToastsProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const drop = useCallback((id: number) => setToasts((all) => all.filter((one) => one.id !== id)), []);
  const show = useCallback(
    (message: string, isBad: boolean) => {
      last += 1;
      const id = last;
      setToasts((all) => [...all.slice(-3), { id, message, isBad }]);
      setTimeout(() => drop(id), SECONDS * 1000 * (isBad ? 2 : 1));
    },
    [drop],
  );
  const [value] = useState<Toasts>(() => ({
    tell: (message) => show(message, false),
    tellFault: (error) => show(error instanceof Fault ? error.message : String(error), true),
  }));
  return (
    <ToastsContext value={value}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map((one) => (
          <div key={one.id} className={`toast ${one.isBad ? "bad" : ""}`}>
            <span>{one.message}</span>
            <Button look="quiet" size="small" icon={X} aria-label="Dismiss" onClick={() => drop(one.id)} />
          </div>
        ))}
      </div>
    </ToastsContext>
  );
}

export function useToasts(): Toasts {
  return useContext(ToastsContext);
}
