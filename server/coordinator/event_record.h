// Event records: the records of a file for TensorBoard, as bytes.
//
// Kind:   pure functions.
// Why:    two small messages of Protocol Buffers are written by hand; that library would be the largest dependency.
// Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto; tensorflow/core/lib/io/
//         record_writer.h: u64 length, masked CRC-32C of the length, the event, masked CRC-32C of the event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::server {

struct Scalar {
  std::string tag;   // the name of a curve, such as "train/loss"
  double value = 0;  // written as a float
};

// `seconds`: the time of day, since 1970.
// The first event of a file.
std::string VersionEvent(double seconds);
// Makes a reader forget the points at `step` and later that were written before: they are going to be done again.
std::string StartEvent(double seconds, std::uint64_t step);
// One point of each curve.
std::string ScalarsEvent(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars);

// Returns the event as a record of a file.
std::string RecordOf(std::string_view event);

}  // namespace capstan::server
