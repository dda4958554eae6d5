import { QueryClient, QueryClientProvider, onlineManager } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { subscribeConnection } from "./api/connection";
import { Fault } from "./api/faults";
import { SessionProvider } from "./api/session";
import { App } from "./app";
import { ToastsProvider } from "./components/toasts";
import { applyTheme } from "./theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/components.css";
import "./styles/tables.css";

applyTheme();
if (!location.pathname.startsWith("/console/")) {
  history.replaceState(null, "", `/console/explore${location.search}${location.hash}`); // the server's own address is the first page's
}
onlineManager.setOnline(true); // whether the server answers is what counts, not what the browser thinks of networks

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      networkMode: "always",
      retry: (failures, error) => failures < 2 && error instanceof Fault && error.status >= 500,
    },
    mutations: { networkMode: "always" },
  },
});
subscribeConnection((isConnected) => {
  if (isConnected) {
    void queries.invalidateQueries();
  }
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <ToastsProvider>
        <SessionProvider>
          <App />
        </SessionProvider>
      </ToastsProvider>
    </QueryClientProvider>
  </StrictMode>,
);
