/** Who answered: Headway, or somebody on the way to it. */

/** What a proxy, or somebody else at this address, says in the server's place. Headway's own refusals are JSON. */
export const isForeign = (response: Response): boolean => {
  const kind = response.headers.get("content-type") ?? "";
  return response.status >= 500 ? !kind.includes("json") : kind.startsWith("text/html");
};
