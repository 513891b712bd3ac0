import { Dialog } from "./dialog";

/** Asks before somebody else's work is cancelled: what has run so far is lost to them. */
export function CancelDialog({ what, owner, onCancel, onClose }: { what: string; owner: string; onCancel: () => void; onClose: () => void }) {
  return (
    <Dialog
      title={`Cancel ${what} of ${owner}?`}
      dismiss="Keep it running"
      actions={
        <button className="danger">Cancel it</button>
      }
      onClose={onClose}
      onSubmit={() => {
        onClose();
        onCancel();
      }}
    >
      <p>It belongs to {owner}. Running tasks are stopped, and {owner} sees that you did it.</p>
    </Dialog>
  );
}
