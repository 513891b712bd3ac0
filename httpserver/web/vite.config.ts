import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    // The server's content policy forbids inline code: no data: scripts, no inlined assets.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": process.env["HEADWAY_URL"] ?? "http://127.0.0.1:8080" } },
  test: { environment: "jsdom", testTimeout: 30_000 },
});
