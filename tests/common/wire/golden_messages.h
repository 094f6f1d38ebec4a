// GoldenMessages: one message of each kind, in the order of MessageTypes, in which most fields have different values.
//
// Kind:   a pure function.
// Why:    golden_headers.txt has the bytes of their headers, so a field that changes its place on the wire is found.
#pragma once

#include <string>
#include <vector>

#include "common/wire/messages.h"

namespace capstan::testing {

inline std::vector<Header> GoldenMessages() {
  const std::string state("\0\xFF{", 3);
  const StepParameters parameters{1001, 0.25F, 1024.0F, 1002, true, false, state, true, false, 1.5};
  const SlotReport report{2001, 2002, 2.5,       2003, 3.5, 2004, 2005, {{"accuracy", 0.5, 8.0}, {"f1", 0.75, 4.0}},
                          4.5,  2006, {5.5, 6.5}};
  const std::vector<TensorSpec> catalog = {
      {"h.0.w", {768, -2304}, {InitKind::kUniform, 0.02F}, true, 3001, TensorKind::kParameter},
      {"bn.mean", {64}, {InitKind::kOnes, 0.5F}, false, 3002, TensorKind::kStatistic}};
  const Commit commit{{1}, {2}, {3}, 4, StepAction::kSkip, parameters};
  const Prepared prepared{1,   {2}, {3},
                          {4}, 5,   {{0.5, 1.5}, {report, {}}, {6, 7, 8}, 9, 2.5, {3.5}, {4.5, 5.5, 6.5}, state, 10}};
  const std::vector<StagedNode> nodes = {{7, {0, 4}}, {10, {0, 4}}, {13, {0, 4}}, {2, {4, 5}}};
  return {
      Ping{{1}, {2}},
      Reset{{1}, {2}, {3}, {4, 5}, {{6}, {7}}, parameters, 8, catalog, {{9, "tcp://a:1"}, {10, "tcp://b:2"}}, {11}, 12},
      commit,
      Redo{{1}, {2}, {3}, 4, 0.5F, {1.5F, 2.5F, 3.5F}, 4.5F},
      ClockUpdate{{1}, {2}, {3}, parameters},
      Pin{{1}, {2}, {3}},
      RetainedSnapshots{{1}, {2}, {{{3}, {4}}, {{5}, {6}}}, {{7}, {8}}},
      Shutdown{{1}, {2}},
      prepared,
      Committed{1, {2}, {3}, {4}},
      Hello{{1, 2},
            3,
            {4},
            {5},
            {6},
            true,
            {7},
            commit,
            prepared,
            8,
            "tcp://a:1",
            {{{{9}, {10}}, 11, 12}},
            {{13}, {14}},
            "a:9",
            15},
      ResetDone{1, {2}, {3}},
      ResetBad{1, {2}, {3}, "disk \xC3\xA9"},
      Progress{1, {2}, {3}, {{4}, {5}, {6}}, {{{7}, report}, {{8}, {}}}},
      SnapshotDone{1, {2}, {3}, {4}, {5}, parameters, 6, 7, "full"},
      Join{{1, 2}, "worker-3", 4, "class", 5, 6, catalog, 7, 8, "machine", "a:9"},
      View{{1, 2},
           {3},
           {4},
           5,
           {6},
           JobPhase::kDone,
           7,
           {8, 9},
           {{10, {11}, "tcp://a:1"}, {12, {13}, ""}},
           {14},
           "a message",
           "a job file",
           true,
           catalog,
           15,
           {16},
           {{"worker-17", state}, {"worker-18", ""}},
           19,
           20,
           "a notice",
           21},
      Heartbeat{{1}, 2, {3}, {4}, true, 5, {6, 7}, 8, GroupState::kBroken, state, 9, {10, 11, 12, 13}, true, false},
      Leave{{1}, 2, "a reason"},
      Push{{1},
           {2},
           {3},
           {4},
           {5, 6},
           7,
           8,
           9,
           Encoding::kBf16,
           {{0.5, 1.5, 2.5, 3.5, 4.5, 5.5, true, 6.5, 7.5, 8.5, 9.5, 10.5, false, true},
            {6.5, 7.5, 8.5, 9.5, 10.5, 11.5, false, 12.5, 13.5, 14.5, 15.5, 16.5, true, false}},
           0.25F},
      EndSlot{{1}, {2}, {3}, {4}, report, state},
      CoverageQuery{{1}, {2}, {3}, {4}, 5, nodes},
      Staged{{1}, {2}, 3, {4}, nodes, {5, 6}, {{7}, {8}, {9}}, true, false, 10, {11}, 12, {{13, {14, 15}}}, true},
      Pull{{1}, {2}, {3}, {4}, {5, 6}, 7, Encoding::kFp16, {8, 9, 10}, true},
      Weights{{1}, {2}, {3}, {4}, 5, true, 6, false, 0.5F, 7, 8, Encoding::kBf16, 9, state, 10.5, true},
      UploadBlock{{1}, {2}, {3}, 4, 5, {6}, 7, state},
      UploadAck{{1}, {2}, 3, {4, 5}, {6}},
      Published{{1}, {2}, {3}, 4, StepAction::kSkip, true, 0.5F, 5, state, 0.25F, true, false, {6}, 7.5},
      Fetch{{{1}, {2}}, 3, 4, 5},
      Fetched{{{1}, {2}}, 3, 4, 5, 6, {{7}, {8}}, 9, "a failure", 10},
      Error{Code::kCorrupt, {1}, {2}, {3}, {4}, 5, "a message"},
      LiveSessions{{1}, 2, 3, {{{4}, "worker-5", {{6, 7}, {8, 9}}, true}, {{10}, "", {}, false}}, {{11}, {12}}},
      Disagreement{1, {2}, {3}, {4}, {5}, {6}, "the samples"},
      MeshPiece{1, 2, 3},
      MeshGrant{1, 2, 3},
      MeshControl{state},
      TeamAsk{{1}, 2, 3, 4, 5, 6, 7, 8, "a call", 9, 10, true, 11},
      TeamGive{{1}, 2, 3, 4, 5},
      TeamState{1, 2, 3, 4, 5, 6, 7, 8, true, 9, Code::kStale, "a message", 10},
      TeamPiece{1, 2, 3, 4, 5, 6, 7},
  };
}

}  // namespace capstan::testing
