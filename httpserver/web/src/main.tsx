import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { ApiError, untilAnswered } from "./api/client";
import { answers } from "./api/reach";
import { App } from "./app";
import "./style.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      refetchOnWindowFocus: true,
      // What was shown comes back at once, also while the server is away.
      gcTime: 30 * 60_000,
      refetchInterval: untilAnswered,
      // A refusal stays one however often it is asked; only silence is worth another try.
      retry: (count, error) => count < 3 && error instanceof ApiError && (error.status === 0 || error.status >= 502),
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
