// The names of the messages and of their parts, for headers that only refer to them.
#pragma once

namespace capstan {

struct Assign;
struct Assigned;
struct Beat;
struct Commit;
struct Committed;
struct CoverageQuery;
struct EndSlot;
struct Error;
struct Fetch;
struct Fetched;
struct Hello;
struct Join;
struct Leave;
struct PartSource;
struct Pin;
struct Ping;
struct Prepared;
struct Progress;
struct Published;
struct Pull;
struct Push;
struct Rates;
struct Redo;
struct Reset;
struct ResetBad;
struct ResetDone;
struct ShardAddress;
struct Shutdown;
struct SnapshotDone;
struct SnapshotsKept;
struct Staged;
struct View;
struct Weights;

}  // namespace capstan
