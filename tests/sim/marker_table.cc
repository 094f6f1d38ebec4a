#include "tests/sim/marker_table.h"

#include "server/shard/admission.h"

namespace capstan::sim {

namespace {

const std::vector<Marker>& Durable() {
  static const std::vector<Marker> markers = {
      {"push that is being logged came again", 3260},
      {"push refused while the log is behind", 2065},
      {"shard died with an append under way", 972},
      {"append torn when its shard died", 180},
      {"append failed and left something behind", 1395},
      {"appends that failed", 1875},
      {"shard went on in another generation", 1185},
      {"shard came back from its log", 1992},
      {"log trimmed behind a snapshot", 8320},
      {"timeline ended, and was reported", 560},
      {"coordinator resumed a running generation", 1455},
      {"crashes of all", 1925},
      {"jobs stopped, and resumed", 375},
  };
  return markers;
}

const std::vector<Marker>& Sync() {
  static const std::vector<Marker> markers = {
      {"first weights asked for again in a new generation", 910},
      {"first weights of an older generation refused", 114},
      {"first weights of a block given twice", 302},
      {"shard dies with first weights that are not kept", 255},
      {"coordinator dies before first weights are kept", 249},
      {"founder dies before its first weights are kept", 141},
      {"pull waits for first weights", 2475},
      {"worker dies after pushes to some of the shards", 233},
      {"worker dies after pushes to every shard", 1357},
      {"worker dies with work, before any push", 1298},
      {"worker joins in the middle of a step", 2340},
      {"worker is told that its session is unknown", 6028},
      {"worker cut from the coordinator alone", 1238},
      {"worker cut from one shard alone", 1160},
      {"shard cut from everybody", 1202},
      {"coordinator cut from everybody", 826},
      {"all workers gone in the middle of a step", 1168},
      {"duplicate name took over", 5940},
      {"older process of a name refused", 913},
      {"view older than the worker's ignored", 3670},
      {"two workers pushed one node", 790},
      {"slots of a slow worker given to another as well", 451},
      {"push inside a node that is held", 502},
      {"push of a node replaces what is held inside", 672},
      {"push of an empty slot", 2492},
      {"push of an older generation refused", 505},
      {"push of a passed step acknowledged", 1656},
      {"acknowledgement of a former life ignored", 205},
      {"weights of another version ignored", 782},
      {"coverage asked of a half-staged step", 3803},
      {"pull waits for the next version", 10000},
      {"pull of a version that is gone refused", 983},
      {"speculative weights before their version is published", 9997},
      {"speculative weights of an attempt that was redone", 1230},
      {"speculative weights of a skipped step", 748},
      {"speculative weights of an older generation ignored", 66},
      {"speculative weights of a step that another coordinator decides", 56},
      {"shard dies with a half-staged step", 886},
      {"shard dies after the last step, before the last snapshot", 47},
      {"shard dies between Prepared and Commit", 394},
      {"shard dies between ResetDone and RUNNING", 1001},
      {"shard dies while it loads", 1116},
      {"shard and worker die in the same step", 902},
      {"shards at different steps when the coordinator dies", 125},
      {"Prepared of a passed step answered with the Commit", 1544},
      {"Prepared of an older generation ignored", 434},
      {"Prepared of a shard without blocks", 432},
      {"Commit sent again by a new coordinator", 86},
      {"Commit of a former generation ignored", 298},
      {"Redo decided again by a new coordinator", 24},
      {"trust ratios decided again by a new coordinator", 15},
      {"elements clipped to the program's limit", 1800},
      {"trust ratios of a clipped gradient", 1326},
      {"trust ratios without clipping", 4746},
      {"coordinator dies during a Redo", 193},
      {"snapshot written during a Redo", 85},
      {"message of an older term ignored by a shard", 3422},
      {"message of a replaced coordinator reaches a shard", 3546},
      {"coordinator resumed a running generation", 1427},
      {"coordinator dies between RECOVER and RUNNING", 1407},
      {"coordinator dies with a snapshot in flight", 1643},
      {"Hello of an older term not believed", 10000},
      {"late Hello of a former life", 2242},
      {"delayed Reset for a former life ignored", 1391},
      {"delayed Reset of an older generation ignored", 266},
      {"Reset repeated to a shard that serves", 2478},
      {"snapshot asked for by Pin", 8725},
      {"snapshot half-written when its shard died", 190},
      {"snapshot of an older generation reported", 226},
      {"snapshot part without manifest deleted", 376},
      {"fallback to an older snapshot", 78},
      {"blocks fetched from another shard", 747},
      {"payload damaged in flight", 874},
      {"message delivered again after seconds", 2096},
      {"older message delivered again", 3999},
      {"message forged by a stranger", 1842},
      {"message forged by an intruder", 1142},
      {"push of a session that the shard does not know", 1488},
      {"list of sessions older than the shard's ignored", 4924},
      {"list of sessions continues one that never came", 5141},
      {"whole list of sessions sent again", 733},
      {"clock jumps", 2110},
      {"network clogs", 2103},
      {"leases lost", 1792},
      {"messages lost", 5728},
      {"messages doubled", 4803},
      {"equal pushes compared and ignored", 6489},
      {"pushes ahead of the window or the step", 6040},
      {"steps redone", 6259},
      {"steps skipped", 2061},
      {"coordinator crashes", 6357},
      {"zombie coordinators", 4017},
      {"crashes of all", 1855},
      {"fewer shards", 857},
      {"more shards", 1055},
      {"shards ended by a full disk", 185},
      {"disk work done, shard dead before it knew", 593},
      {"snapshots taken", 8634},
      {"snapshots given up", 183},
      {"snapshots passed over", 516},
      {"jobs stopped, and resumed", 385},
      {"jobs stopped, and nothing befell their servers", 245},
      {"versions read by a follower", 2605},
  };
  return markers;
}

const std::vector<Marker>& Async() {
  static const std::vector<Marker> markers = {
      {"push of an older generation refused", 772},
      {"push that was applied before acknowledged", 4075},
      {"push refused for a gap", 1297},
      {"coverage asked by a new owner", 10000},
      {"coordinator resumed a running generation", 1475},
      {"snapshot asked for by Pin", 8702},
      {"fallback to an older snapshot", 72},
      {"message of an older term ignored by a shard", 3475},
      {"jobs stopped, and resumed", 420},
      {"versions read by a follower", 2605},
  };
  return markers;
}

const std::vector<Marker>& Bounded() {
  static const std::vector<Marker> markers = {
      {"slots as far ahead as allowed", 5210},
      {"push refused for a gap", 902},
      {"coordinator resumed a running generation", 1515},
      {"fallback to an older snapshot", 75},
      {"jobs stopped, and resumed", 440},
      {"versions read by a follower", 2605},
  };
  return markers;
}

const std::vector<Marker>& AllReduce() {
  static const std::vector<Marker> markers = {
      {"groups formed", 10000},
      {"groups of devices formed", 2660},
      {"group broken by a member", 976},
      {"worker without a group waits for another generation", 852},
      {"round of a group that is given up already", 485},
      {"nobody had the version any more", 427},
      {"version handed on by a member", 622},
      {"version read from the shards", 10000},
      {"version made before its generation was over", 457},
      {"version made in a generation that did not commit it", 62},
      {"version of a skipped step taken", 500},
      {"step without a slot on some shard", 1702},
      {"block of an uploaded version uploaded twice", 882},
      {"block of an uploaded version of an older generation refused", 355},
      {"shard went on in another generation", 5282},
      {"shard dies between Prepared and Commit", 340},
      {"shards at different steps when the coordinator dies", 42},
      {"Commit sent again by a new coordinator", 17},
      {"coordinator resumed a running generation", 910},
      {"coordinator dies between RECOVER and RUNNING", 1882},
      {"fallback to an older snapshot", 32},
      {"snapshots taken", 8305},
      {"blocks fetched from another shard", 285},
      {"crashes of all", 1925},
      {"messages lost with their sender", 3480},
      {"versions read by a follower", 2605},
  };
  return markers;
}

const std::vector<Marker>& Local() {
  static const std::vector<Marker> markers = {
      {"worker pushed for its machine", 3140},
      {"worker broke off pushing for its machine", 130},
      {"worker pushes by itself, its machine's group knows", 2510},
      {"worker cannot be reached by its machine's group", 890},
      {"worker pushes by itself, because another one of its machine has done so", 1710},
      {"machine's group not formed in time", 3},
      {"machine's group broken for want of a member", 107},
      {"machine's group broken after gradients were handed over", 113},
      {"machine's group changed in the middle of a round", 263},
      {"round given up while its machine's group waits for it", 13},
  };
  return markers;
}

const std::vector<Marker>& Median() {
  static const std::vector<Marker> markers = {
      {"worker crashes", 9000},
      {"shard crashes", 9000},
  };
  return markers;
}

const std::vector<Marker>& Old() {
  static const std::vector<Marker> markers = {
      {"worker crashes", 9000},
      {"shard crashes", 9000},
      {"jobs stopped, and resumed", 2000},
      {"versions read by a follower", 2000},
  };
  return markers;
}

const std::vector<Marker>& SlowLines() {
  static const std::vector<Marker> markers = {
      {"messages refused by a full queue", 3000},
      {"worker crashes", 2000},
      {"shard crashes", 2000},
      {"versions read by a follower", 4500},
  };
  return markers;
}

const std::vector<Marker>& SharedPayloadMarkers() {
  static const std::vector<Marker> markers = {
      {"payloads left in their sender's memory", 9000},
      {"weights copied in place", 9000},
      {"payloads lent to a shard", 4900},
      {"lent payloads that changed", 1300},
      {"weights that came again, changed", 3000},
      {"connections given up", 1000},
      {"reference of a connection that is gone", 300},
  };
  return markers;
}

const std::vector<Marker>& External() {
  static const std::vector<Marker> markers = {
      {"versions made by a program", 10000},
      {"snapshots taken", 9000},
      {"recoveries", 5000},
      {"versions read by a follower", 1000},
  };
  return markers;
}

}  // namespace

const std::vector<Marker>& MarkersOf(const RunName& name) {
  if (name.old) return Old();
  if (name.slow_lines) return SlowLines();
  if (name.durable) return Durable();
  if (name.local) return Local();
  if (name.external) return External();
  if (name.shared) return SharedPayloadMarkers();
  if (name.median) return Median();
  if (WorkersUpdate(name.mode)) return AllReduce();
  if (name.mode == Mode::kBounded) return Bounded();
  return HasGlobalSteps(name.mode) ? Sync() : Async();
}

bool ExpectedWithin(const Marker& marker, std::uint64_t runs) { return marker.jobs * runs >= 20 * 10'000; }

}  // namespace capstan::sim
