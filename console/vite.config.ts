import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where `npm run dev` finds a server: `fairlead serve --simulate`, unless FAIRLEAD_URL says otherwise. */
const target = process.env.FAIRLEAD_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    outDir: "../src/fairlead/console",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the Content-Security-Policy takes nothing inline
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000, // tests/form/test_console.py bounds the compressed size of the first load
  },
  server: {
    proxy: {
      "^/(api|v2|assets|files|healthz|openapi.json)(/|$)": target,
      "/ws": { target, ws: true },
    },
  },
});
