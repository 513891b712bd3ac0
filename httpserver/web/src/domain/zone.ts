/** By which clock a moment is told: UTC, UTC+1, UTC+5:30. The hour that comes twice in autumn is told apart by it. */
export function zone(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  if (minutes === 0 || Number.isNaN(minutes)) return "UTC";
  const off = Math.abs(minutes);
  const rest = Math.round(off % 60);
  return `UTC${minutes < 0 ? "−" : "+"}${Math.floor(off / 60)}${rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`}`;
}
