#include "cli/run/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace capstan::cli {

using nlohmann::json;

namespace {

std::string Print(const Event& event) {
  json object;
  switch (event.kind) {
    case Event::Kind::kReady:
      object = {{"event", "ready"}, {"addresses", event.addresses}, {"metrics", event.metrics}};
      break;
    case Event::Kind::kBeat: object = {{"event", "beat"}}; break;
    case Event::Kind::kStopAsked: object = {{"event", "stop_asked"}}; break;
    case Event::Kind::kNotice:
      object = {{"event", "notice"}, {"severity", static_cast<int>(event.severity)}, {"text", event.text}};
      break;
    case Event::Kind::kFailed: object = {{"event", "failed"}, {"text", event.text}}; break;
    case Event::Kind::kNone: return "";
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

// Halves the list of addresses, then the text, until the printed line fits. Escapes lengthen a text, so only the
// printed line shows its size.
std::string PrintEvent(Event event) {
  std::string line = Print(event);
  while (line.size() > kEventBytesMax) {
    if (!event.addresses.empty()) {
      event.addresses.resize(event.addresses.size() / 2);
    } else {
      event.text.resize(event.text.size() / 2);
    }
    line = Print(event);
  }
  return line;
}

Event ParseEvent(std::string_view line) {
  Event event;
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return event;
  const auto text = [&](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string kind = text("event");
  event.text = text("text");
  event.metrics = text("metrics");
  if (kind == "beat") event.kind = Event::Kind::kBeat;
  if (kind == "stop_asked") event.kind = Event::Kind::kStopAsked;
  if (kind == "failed") event.kind = Event::Kind::kFailed;
  if (kind == "notice") {
    event.kind = Event::Kind::kNotice;
    const auto severity = object.find("severity");
    const int number = severity != object.end() && severity->is_number_integer() ? severity->get<int>() : 0;
    event.severity = number == 2 ? Severity::kError : number == 1 ? Severity::kWarning : Severity::kInfo;
  }
  if (kind == "ready") {
    event.kind = Event::Kind::kReady;
    const auto addresses = object.find("addresses");
    if (addresses != object.end() && addresses->is_array()) {
      for (const json& address : *addresses) {
        if (address.is_string()) event.addresses.push_back(address.get<std::string>());
      }
    }
  }
  return event;
}

EventWriter::EventWriter(int fd) : fd_(fd) {
  if (fd_ < 0) return;
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  fcntl(fd_, F_SETFL, O_NONBLOCK);
}

void EventWriter::Write(const Event& event) const {
  const std::string line = PrintEvent(event);
  if (fd_ >= 0 && write(fd_, line.data(), line.size()) < 0) return;  // the log has it as well
}

void EventWriter::Ready(std::vector<std::string> addresses, std::string metrics) const {
  Event event;
  event.kind = Event::Kind::kReady;
  event.addresses = std::move(addresses);
  event.metrics = std::move(metrics);
  Write(event);
}

void EventWriter::Heartbeat() const {
  Event event;
  event.kind = Event::Kind::kBeat;
  Write(event);
}

void EventWriter::StopAsked() const {
  Event event;
  event.kind = Event::Kind::kStopAsked;
  Write(event);
}

void EventWriter::Notice(Severity severity, std::string text) const {
  Event event;
  event.kind = Event::Kind::kNotice;
  event.severity = severity;
  event.text = std::move(text);
  Write(event);
}

void EventWriter::Failed(std::string text) const {
  Event event;
  event.kind = Event::Kind::kFailed;
  event.text = std::move(text);
  Write(event);
}

}  // namespace capstan::cli
