import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, createContext, useCallback, useContext, useEffect, useMemo, useState } from "react";
import { api, documentOf, onSignedOut, setCsrfToken, setWorkspace } from "./client";
import { Fault } from "./faults";
import type { components } from "./schema";

export type Me = components["schemas"]["Me"];
type Accepted = components["schemas"]["AcceptedInvitation"];
export type Role = "owner" | "member" | "viewer";

/** The state of the session: `ended` is one that was open in this page, whose pages stay under the login. */
type State = { kind: "unknown" } | { kind: "none" } | { kind: "open" | "ended"; me: Me } | { kind: "failed"; fault: Fault };

interface Session {
  state: State;
  /** The token of the link that led here, until it is accepted or put off. */
  invitation: string | null;
  signIn(key: string): Promise<void>;
  /** Go on as whom an accepted invitation has signed in, or as before; in the workspace that it was for. */
  leaveInvitation(accepted?: Accepted): Promise<void>;
  signOut(): Promise<void>;
  retry(): void;
  workspace: string;
  chooseWorkspace(name: string): void;
}

const SessionContext = createContext<Session | null>(null);
const CHOSEN = "fairlead-workspace";

/** What a link has behind its hash, which no server or proxy sees: the key that the server prints, or an invitation. */
function ofLink(name: "key" | "invitation"): string | null {
  return new URLSearchParams(location.hash.slice(1)).get(name);
}

export function SessionProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [state, setState] = useState<State>({ kind: "unknown" });
  const [workspace, setChosen] = useState("");
  const [invitation, setInvitation] = useState(() => ofLink("invitation"));

  const open = useCallback(
    (me: Me, csrfToken: string | undefined) => {
      setCsrfToken(csrfToken ?? "");
      const names = me.workspaces.map((one) => one.name);
      const kept = localStorage.getItem(CHOSEN) ?? "";
      const name = names.includes(kept) ? kept : (names[0] ?? "");
      setWorkspace(name);
      setChosen(name);
      setState({ kind: "open", me });
      void queries.invalidateQueries();
    },
    [queries],
  );

  const look = useCallback(async () => {
    try {
      const me = await documentOf(api.GET("/api/admin/v1/me"));
      open(me, me.csrf_token);
    } catch (error) {
      if (error instanceof Fault) {
        setState(error.isSignedOut ? { kind: "none" } : { kind: "failed", fault: error });
      } else {
        throw error;
      }
    }
  }, [open]);

  useEffect(() => {
    const key = ofLink("key");
    if (location.hash) {
      history.replaceState(null, "", location.pathname + location.search);
    }
    if (key) {
      api
        .POST("/api/admin/v1/sessions", { body: { key } })
        .then(({ data }) => open(data!.me, data!.csrf_token))
        .catch(() => look());
      return;
    }
    void look();
  }, [look, open]);

  useEffect(
    () =>
      onSignedOut(() => setState((now) => (now.kind === "open" ? { kind: "ended", me: now.me } : now))),
    [],
  );

  const session = useMemo<Session>(
    () => ({
      state,
      workspace,
      invitation,
      retry: () => void look(),
      async leaveInvitation(accepted) {
        if (accepted) {
          localStorage.setItem(CHOSEN, accepted.workspace);
          if (accepted.session) {
            open(accepted.session.me, accepted.session.csrf_token);
          } else {
            await look();
          }
        }
        setInvitation(null);
      },
      async signIn(key) {
        const { me, csrf_token } = await documentOf(api.POST("/api/admin/v1/sessions", { body: { key } }));
        open(me, csrf_token);
      },
      async signOut() {
        await api.DELETE("/api/admin/v1/sessions/{session_id}", { params: { path: { session_id: "current" } } }).catch(() => null);
        queries.clear();
        setCsrfToken("");
        setState({ kind: "none" });
      },
      chooseWorkspace(name) {
        localStorage.setItem(CHOSEN, name);
        setWorkspace(name);
        setChosen(name);
        void queries.resetQueries();
      },
    }),
    [state, workspace, invitation, look, open, queries],
  );
  return <SessionContext value={session}>{children}</SessionContext>;
}

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) {
    throw new Error("There is no SessionProvider above.");
  }
  return session;
}

/** Who is signed in, and what they may do in the chosen workspace; only below the login. */
export function useMe(): { me: Me; workspace: string; role: Role | null; isOperator: boolean; mayChange: boolean; mayRun: boolean } {
  const { state, workspace } = useSession();
  if (state.kind !== "open" && state.kind !== "ended") {
    throw new Error("Nobody is signed in.");
  }
  const { me } = state;
  const role = (me.workspaces.find((one) => one.name === workspace)?.role ?? null) as Role | null;
  const isOperator = me.is_operator;
  return { me, workspace, role, isOperator, mayChange: isOperator || role === "owner", mayRun: isOperator || role === "owner" || role === "member" };
}
