/** Who uses a GPU without Headway; on a booked card too, where it changes nothing. */
import type { Node } from "../api/client";
import { processText } from "../domain/outside";

export function OutsideProcesses({ gpu }: { gpu: Pick<Node["gpus"][number], "processes"> }) {
  const processes = gpu.processes ?? [];
  if (processes.length === 0) return null;
  return (
    <ul className="outside" aria-label="without Headway">
      {processes.map((process) => (
        <li key={process.pid} className="note">
          {processText(process)}
        </li>
      ))}
    </ul>
  );
}
