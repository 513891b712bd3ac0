import { type Efficiency, amount, resourceName } from "../domain/metrics";
import { Sentence } from "./basics";

/** What was asked for against what was used, and what to ask for next time. */
export function EfficiencyCard({ of }: { of: Efficiency }) {
  if (of.rows.length === 0 && of.sentences.length === 0) return null;
  return (
    <div className="efficiency">
      {of.rows.length > 0 && (
        <table aria-label="Asked for and used">
          <thead>
            <tr>
              <th>Asked for and used</th>
              <th>Asked</th>
              <th>Used</th>
              <th>Share</th>
            </tr>
          </thead>
          <tbody>
            {of.rows.map((row) => (
              <tr key={row.resource} title={row.sentence}>
                <td>{resourceName(row)}</td>
                <td className="number">{amount(row, row.asked)}</td>
                <td className="number">{amount(row, row.used)}</td>
                <td className="number">
                  <span className="share-bar" aria-hidden="true">
                    <span style={{ width: `${Math.min(100, 100 * row.share)}%` }} />
                  </span>{" "}
                  {Math.round(100 * row.share)} %
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <div className="next-time">
        {of.final ? (
          <>
            <strong>Next time</strong>
            {of.sentences.length === 0 && <p>Nothing is suggested: a run that failed or was stopped does not show what it needs.</p>}
            {of.sentences.map((sentence) => (
              <p key={sentence}>
                <Sentence text={sentence} />
              </p>
            ))}
          </>
        ) : (
          <p className="facts">So far. At its end it says here what to ask for next time.</p>
        )}
      </div>
    </div>
  );
}
