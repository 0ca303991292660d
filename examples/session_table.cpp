// Sessions of a small server, addressed by number. `close` frees a session but leaves its entry behind, so that a later
// `touch` uses freed memory; `expire` shows the careful way.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace server {

struct Session {
    std::string user;
    std::time_t last_seen = 0;
    char token[16] = {};
};

class SessionTable {
public:
    explicit SessionTable(std::size_t capacity) : sessions_(capacity, nullptr) {}

    ~SessionTable()
    {
        for (Session *session : sessions_)
            delete session;
    }

    SessionTable(const SessionTable &) = delete;
    SessionTable &operator=(const SessionTable &) = delete;

    int open(const std::string &user, const char *token);
    bool touch(std::size_t id);
    void close(std::size_t id);
    std::size_t expire(std::time_t before);

private:
    std::vector<Session *> sessions_;
};

int SessionTable::open(const std::string &user, const char *token)
{
    for (std::size_t id = 0; id < sessions_.size(); ++id) {
        if (sessions_[id] != nullptr)
            continue;

        auto *session = new Session;
        session->user = user;
        session->last_seen = std::time(nullptr);
        // A token of 16 characters or more overflows the array.
        std::strcpy(session->token, token);
        sessions_[id] = session;
        return static_cast<int>(id);
    }
    return -1;
}

bool SessionTable::touch(std::size_t id)
{
    if (id >= sessions_.size() || sessions_[id] == nullptr)
        return false;
    sessions_[id]->last_seen = std::time(nullptr);
    return true;
}

void SessionTable::close(std::size_t id)
{
    if (id < sessions_.size())
        delete sessions_[id];
}

std::size_t SessionTable::expire(std::time_t before)
{
    std::size_t expired = 0;
    for (Session *&session : sessions_) {
        if (session == nullptr || session->last_seen >= before)
            continue;
        delete session;
        session = nullptr;
        ++expired;
    }
    return expired;
}

} // namespace server
