// The project's schemas, vectors and transcripts, and JSON as frames.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "parley/parley.hpp"

using json = nlohmann::json;

inline std::string file(const std::string& name) {
    std::ifstream in(std::string(PARLEY_SCHEMAS) + "/" + name, std::ios::binary);
    if (!in) throw std::runtime_error("no file " + name + " in " PARLEY_SCHEMAS);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
}

inline json json_file(const std::string& name) { return json::parse(file(name)); }

inline std::string from_hex(const std::string& text) {
    std::string bytes;
    std::string digits;
    for (const char one : text) {
        if (std::isxdigit(static_cast<unsigned char>(one)) == 0) continue;
        digits += one;
        if (digits.size() == 2) {
            bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
            digits.clear();
        }
    }
    return bytes;
}

inline std::string as_frame(const json& message) {
    const std::vector<std::uint8_t> bytes = json::to_msgpack(message);
    return {bytes.begin(), bytes.end()};
}

inline json from_frame(const std::string& bytes) { return json::from_msgpack(bytes); }

/// A machine of one group of nodes or more, each with its amounts, as a welcome tells of it.
inline parley::Welcome welcome_to(std::vector<parley::NodeGroup> groups) {
    parley::Welcome welcome{};
    welcome.limits.message_bytes = 1 << 24;
    welcome.limits.decisions = 1000;
    welcome.platform.node_count = groups.back().last + 1;
    welcome.platform.groups = std::move(groups);
    return welcome;
}

inline parley::JobDescription job_description(std::int64_t number, std::int64_t chunks,
                                              std::optional<parley::Micros> walltime_us,
                                              parley::Amounts per_chunk = {{"core", 1}},
                                              bool exclusive = false) {
    parley::JobDescription job{};
    job.job = number;
    job.name = "job " + std::to_string(number);
    job.walltime_us = walltime_us;
    job.request = {{chunks, std::move(per_chunk), exclusive}};
    return job;
}

inline parley::DecisionRequest request_at(parley::Micros now_us,
                                          std::vector<parley::Event> events) {
    parley::DecisionRequest request{};
    request.now_us = now_us;
    request.attempt = 1;
    request.events = std::move(events);
    return request;
}
