#include "ticket.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "parley/errors.hpp"

namespace parley {
namespace {

std::string from_environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

[[noreturn]] void cannot_write(const std::string& path) {
    throw WrongUsage(path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace

std::optional<Resume> TicketFile::find() const {
    const Resume handed{from_environment("PARLEY_SESSION"), from_environment("PARLEY_TOKEN")};
    if (!handed.session.empty() && !handed.token.empty()) return handed;
    if (path_.empty() || ::access(path_.c_str(), F_OK) != 0) return std::nullopt;
    try {
        std::ifstream file(path_);
        const nlohmann::json content = nlohmann::json::parse(file);
        return Resume{content.at("session").get<std::string>(),
                      content.at("token").get<std::string>()};
    } catch (const nlohmann::json::exception&) {
        throw WrongUsage(path_ + ": not the file of a session; remove it to begin anew");
    }
}

void TicketFile::keep(const Resume& ticket) const {
    if (path_.empty()) return;
    const std::string fresh = path_ + ".new";
    const std::string content =
        nlohmann::json{{"session", ticket.session}, {"token", ticket.token}}.dump();
    const int file = ::open(fresh.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) cannot_write(path_);
    const ssize_t written = ::write(file, content.data(), content.size());
    if (::close(file) != 0 || written != static_cast<ssize_t>(content.size()) ||
        std::rename(fresh.c_str(), path_.c_str()) != 0) {
        cannot_write(path_);
    }
}

void TicketFile::forget() const {
    if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace parley
