/* SPDX-License-Identifier: MIT */
#include "stats/events.hpp"

#include "base/write_line.hpp"
#include "stats/counters.hpp"
#include "stats/syslog_socket.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

constexpr auto write_wait = 100ms;
constexpr const char *journal_socket = "/run/systemd/journal/socket";

/* Whether stderr is the journal: JOURNAL_STREAM has its device and inode. */
bool is_stderr_journal()
{
	const char *const stream = std::getenv("JOURNAL_STREAM");
	struct stat of {
	};
	if (!stream || fstat(STDERR_FILENO, &of) < 0)
		return false;
	return std::to_string(of.st_dev) + ':' + std::to_string(of.st_ino) == stream;
}

} // namespace

/* Where events go. Does not change once it is in use. */
struct event_target {
	event_form form = event_form::text;
	std::string socket{};
	bool is_local = false;   /* syslog in the C library's form, not RFC 5424 */
	bool is_journal = false; /* stderr is the journal */
	int fd = -1;

	event_target() = default;
	event_target(const event_target &) = delete;
	event_target &operator=(const event_target &) = delete;
	~event_target()
	{
		if (fd >= 0)
			::close(fd);
	}
};

std::shared_ptr<const event_target> open_event_target(std::string_view name)
{
	auto made = std::make_shared<event_target>();
	made->is_journal = is_stderr_journal();
	if (name == "json") {
		made->form = event_form::json;
	} else if (name.starts_with("syslog")) {
		made->form = event_form::syslog;
		made->is_local = name == "syslog";
		made->socket = syslog_path(name);
	} else if (name == "journal" || made->is_journal) {
		made->form = event_form::journal;
		made->socket = journal_socket;
	}
	if (!made->socket.empty())
		made->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return made;
}

namespace
{

/* The number of events of one kind that may be sent, as for any bucket of tokens. */
struct event_bucket {
	std::int64_t full_at = 0; /* as of sn_now(); in the past: it is full */
	std::uint64_t suppressed = 0;

	bool take(const event_limit &limit, std::int64_t now)
	{
		const std::int64_t pause = std::chrono::nanoseconds(limit.pause).count();
		if (limit.burst == 0)
			return true;
		if (full_at < now)
			full_at = now;
		if (full_at - now > (limit.burst - 1) * pause)
			return false;
		full_at += pause;
		return true;
	}
};

struct events_state {
	std::mutex lock; /* guards target and buckets; not held while sending */
	std::shared_ptr<const event_target> target;
	event_bucket buckets[static_cast<std::size_t>(event_kind::count_)];
	counter suppressed;
	counter lost;
	std::atomic<std::uint64_t> told_lost{0};
	std::mutex writing;    /* held while writing to stderr, which is bounded */
	bool is_stuck = false; /* the last write timed out; under `writing` */
};

/* Never destroyed, because tasks and threads may still emit while the process ends. */
events_state &state()
{
	static auto *const made = new events_state;
	return *made;
}

std::shared_ptr<const event_target> target_now()
{
	auto &all = state();
	const std::lock_guard guard(all.lock);
	if (!all.target)
		all.target = std::make_shared<const event_target>();
	return all.target;
}

/*
 * Writes the line by one call, if there is room for it; up to PIPE_BUF a pipe takes all or nothing.
 * Only one thread writes at a time: where a write can wait (write_line.hpp), two could see room for
 * one line.
 */
bool write_to_stderr(std::string_view line)
{
	auto &all = state();
	return sn::blocking([&] {
		const std::lock_guard turn(all.writing);
		const auto end = write_line(STDERR_FILENO, line, all.is_stuck ? 0ms : write_wait);
		all.is_stuck = end == line_end::no_room;
		return end == line_end::written;
	});
}

/* Does not wait, because a daemon that does not read must not hold up the relay. */
bool send_to_socket(const event_target &to, std::string_view record)
{
	sockaddr_un at{};
	at.sun_family = AF_UNIX;
	if (to.fd < 0 || to.socket.size() >= sizeof at.sun_path)
		return false;
	std::memcpy(at.sun_path, to.socket.data(), to.socket.size());
	/* Sends to the path each time, because a daemon that has restarted has another socket
	 * there. */
	return sendto(to.fd, record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
		      reinterpret_cast<const sockaddr *>(&at), sizeof at) >= 0;
}

bool deliver(const event &what)
{
	const auto to = target_now();
	switch (to->form) {
	case event_form::text:
		return write_to_stderr(to_text(what));
	case event_form::json:
		return write_to_stderr(to_json(what));
	case event_form::syslog:
		if (send_to_socket(*to, to->is_local ? to_local_syslog(what, getpid())
						     : to_syslog(what, own_host(), getpid())))
			return true;
		break;
	case event_form::journal:
		if (send_to_socket(*to, to_journal(what)))
			return true;
		break;
	}
	return write_to_stderr(to->is_journal ? to_prefixed_text(what) : to_text(what));
}

void send(event what)
{
	auto &all = state();
	what.time = std::chrono::nanoseconds(sn_walltime());
	if (!deliver(what)) {
		all.lost.add();
		return;
	}
	/* If several tasks come here, one of them reports. */
	auto told = all.told_lost.load(std::memory_order_relaxed);
	const auto lost = all.lost.get();
	if (lost == told ||
	    !all.told_lost.compare_exchange_strong(told, lost, std::memory_order_relaxed))
		return;
	deliver({.time = what.time,
		 .kind = event_kind::events_lost,
		 .message = "events could not be written",
		 .fields = {{"events", lost - told}}});
}

} // namespace

std::optional<std::string> event_target_problem(std::string_view target)
{
	if (target == "stderr" || target == "json" || target == "syslog" || target == "journal")
		return std::nullopt;
	constexpr std::string_view socket = "syslog:";
	if (!target.starts_with(socket))
		return "is none of the choices; expected stderr, json, syslog, syslog:/PATH or "
		       "journal";
	if (!target.substr(socket.size()).starts_with('/'))
		return "has no path; expected that of a Unix socket, such as syslog:/dev/log";
	if (target.size() - socket.size() >= sizeof sockaddr_un::sun_path)
		return "has a path that is too long; expected at most 107 bytes";
	return std::nullopt;
}

void send_events_to(std::string_view target)
{
	send_events_to(open_event_target(target));
}

void send_events_to(std::shared_ptr<const event_target> target) noexcept
{
	auto &all = state();
	const std::lock_guard guard(all.lock);
	all.target.swap(target);
}

void emit(event_kind kind, std::string_view message, event_fields fields) noexcept
try {
	auto &all = state();
	std::uint64_t suppressed = 0;
	{
		const std::lock_guard guard(all.lock);
		auto &bucket = all.buckets[static_cast<std::size_t>(kind)];
		if (!bucket.take(describe(kind).limit, sn_now())) {
			bucket.suppressed++;
			all.suppressed.add();
			return;
		}
		suppressed = std::exchange(bucket.suppressed, 0);
	}
	send({.kind = kind,
	      .message = std::string(message),
	      .fields = std::move(fields),
	      .suppressed = suppressed});
} catch (const std::exception &) {
	state().lost.add(); /* no memory */
}

void count_lost_event() noexcept
{
	state().lost.add();
}

void flush_suppressed() noexcept
try {
	auto &all = state();
	for (std::size_t i = 0; i < std::size(all.buckets); i++) {
		const auto kind = static_cast<event_kind>(i);
		std::uint64_t suppressed = 0;
		{
			const std::lock_guard guard(all.lock);
			auto &bucket = all.buckets[i];
			if (bucket.suppressed == 0 || !bucket.take(describe(kind).limit, sn_now()))
				continue;
			suppressed = std::exchange(bucket.suppressed, 0);
		}
		send({.kind = event_kind::events_suppressed,
		      .message = "events over the limit of their kind were left out",
		      .fields = {{"of", describe(kind).name}, {"events", suppressed}}});
	}
} catch (const std::exception &) {
	state().lost.add();
}

std::uint64_t suppressed_events() noexcept
{
	return state().suppressed.get();
}

std::uint64_t lost_events() noexcept
{
	return state().lost.get();
}

} // namespace relay
