import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { ApiError, untilAnswered } from "./api/client";
import { awaySince } from "./api/reach";
import { App } from "./app";
import "./style.css";

const client = new QueryClient({
  defaultOptions: {
    // Whether the machine is on a network says nothing of a server on it; and a press is done now or refused, never later.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 15_000,
      refetchOnWindowFocus: true,
      // What was shown comes back at once, also while the server is away.
      gcTime: 30 * 60_000,
      refetchInterval: untilAnswered,
      // A refusal stays one however often it is asked; only silence is worth another try.
      retry: (count, error) => count < 3 && awaySince.value === null && error instanceof ApiError && (error.status === 0 || error.status >= 502),
    },
  },
});

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
