// What a dispatcher must keep to take its session up again after a crash.
#pragma once

#include <optional>
#include <string>

#include "parley/messages.hpp"

namespace parley {

/// A server that starts a dispatcher again hands it the ticket in PARLEY_SESSION and PARLEY_TOKEN;
/// a dispatcher that others start keeps it in a file.
class TicketFile {
public:
    /// An empty path keeps nothing.
    explicit TicketFile(std::string path) : path_(std::move(path)) {}

    /// The ticket of a session that broke off, if there is one; throws WrongUsage if the file
    /// holds something else.
    std::optional<Resume> find() const;
    /// Note a ticket; only the user may read it. Throws WrongUsage if it cannot be written.
    void keep(const Resume& ticket) const;
    /// The session is over: there is nothing to take up.
    void forget() const;

private:
    std::string path_;
};

}  // namespace parley
